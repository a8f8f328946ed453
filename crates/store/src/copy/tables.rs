//! What a control plane consists of: one list of tables for both backends, in the order in which they
//! are copied.
//!
//! A row has the same values in both. Where a backend stores them in another way, its statements here
//! say so. `covers_the_schema` in each backend's tests fails when a migration adds what is not listed.

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    /// May be NULL.
    Maybe,
    /// 0 and 1 in SQLite.
    Bool,
    Text,
    Blob,
    /// A SHA-256 in hexadecimal digits; its bytes in SQLite.
    Hash,
}

/// Where SQLite's side of a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// `state.db`
    State,
    /// `packages.db`
    Catalog,
    /// `packages/`: pieces of files
    Files,
    /// `tokens.json`
    Tokens,
}

/// The statements of one backend.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Statements {
    /// `None`: all columns, ordered by the key.
    pub(crate) select: Option<&'static str>,
    /// `None`: all columns.
    pub(crate) insert: Option<&'static str>,
}

/// One table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, Kind)],
    /// So many of the first columns are the primary key, by which rows are ordered.
    pub(crate) key: usize,
    pub(crate) home: Home,
    /// In SQLite, if it has another name there.
    pub(crate) sqlite_name: &'static str,
    pub(crate) sqlite: Statements,
    pub(crate) postgres: Statements,
}

impl Table {
    const fn new(name: &'static str, key: usize, columns: &'static [(&'static str, Kind)]) -> Self {
        let own = Statements { select: None, insert: None };
        Self { name, columns, key, home: Home::State, sqlite_name: name, sqlite: own, postgres: own }
    }

    const fn at(self, home: Home, sqlite_name: &'static str) -> Self {
        Self { home, sqlite_name, ..self }
    }

    const fn sqlite(self, select: Option<&'static str>, insert: Option<&'static str>) -> Self {
        Self { sqlite: Statements { select, insert }, ..self }
    }

    const fn postgres(self, select: Option<&'static str>, insert: Option<&'static str>) -> Self {
        Self { postgres: Statements { select, insert }, ..self }
    }
}

use Kind::{Blob, Bool, Hash, Int, Maybe, Text};

/// Who the control plane is. First: secrets are sealed for it.
pub(crate) const PLANE: Table =
    Table::new("plane", 1, &[("id", Text)]).sqlite(None, Some("UPDATE plane SET id = ?1")).postgres(
        Some("SELECT plane FROM multicluster.state"),
        Some("UPDATE multicluster.state SET plane = n FROM unnest($1::text[]) AS n"),
    );

/// The names of the keys that it needs.
pub(crate) const KEYS: Table = Table::new("sealed_by", 1, &[("key", Text)]);

/// One row, if there ever were tokens. Passed on unsealed: they are plain in the file.
pub(crate) const TOKENS: Table = Table::new("tokens", 1, &[("body", Text)]).at(Home::Tokens, "").postgres(
    None,
    Some("INSERT INTO multicluster.tokens (version, body) SELECT 1, n FROM unnest($1::text[]) AS n"),
);

/// What packages contain, in pieces of [`PIECE`] bytes. Each ends with a shorter one, perhaps an empty one.
pub(crate) const PIECES: Table =
    Table::new("package_pieces", 2, &[("sha256", Text), ("piece", Int), ("body", Blob)])
        .at(Home::Files, "")
        .postgres(
            Some(
                "SELECT c.sha256, p.piece, p.body
                 FROM multicluster.contents c JOIN multicluster.package_pieces p USING (upload)
                 ORDER BY c.sha256, p.piece",
            ),
            Some(
                "INSERT INTO multicluster.package_pieces (upload, piece, body)
                 SELECT c.upload, n.piece, n.body
                 FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS n (sha256, piece, body)
                 JOIN multicluster.contents c USING (sha256)",
            ),
        );

/// The names of packages refer to it.
pub(crate) const CONTENTS: Table =
    Table::new("contents", 1, &[("sha256", Text), ("size", Int), ("used_at", Int)])
        .at(Home::Catalog, "contents")
        .postgres(
            None,
            Some(
                "WITH new AS (
                     SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[])
                         WITH ORDINALITY AS n (sha256, size, used_at, number)
                 ), begun AS (
                     INSERT INTO multicluster.package_uploads (begun_at)
                     SELECT pg_catalog.clock_timestamp() FROM new RETURNING upload
                 ), numbered AS (
                     SELECT upload, pg_catalog.row_number() OVER (ORDER BY upload) AS number FROM begun
                 )
                 INSERT INTO multicluster.contents (sha256, size, used_at, upload)
                 SELECT sha256, size, used_at, upload FROM new JOIN numbered USING (number)",
            ),
        );

/// The size of a piece of a package, as uploads store them.
pub(crate) const PIECE: usize = 1 << 20;

/// Everything, in order.
pub(crate) const TABLES: &[Table] = &[
    PLANE,
    KEYS,
    TOKENS,
    Table::new("clusters", 1, &[("name", Text), ("record", Text)]),
    Table::new("policies", 1, &[("name", Text), ("spec", Text)]),
    Table::new("usage", 1, &[("owner", Text), ("record", Text)]),
    Table::new("orphans", 3, &[("cluster", Text), ("job", Text), ("attempt", Int), ("life", Maybe)]),
    Table::new("jobs", 1, &[("job", Int), ("class", Int), ("id", Text), ("record", Text)]),
    Table::new("payloads", 1, &[("job", Int), ("body", Text)]),
    Table::new("job_clusters", 2, &[("job", Int), ("cluster", Text), ("class", Int)]),
    Table::new("job_packages", 2, &[("job", Int), ("sha256", Hash)]),
    Table::new("attempts", 2, &[("job", Int), ("attempt", Int), ("record", Text)]),
    Table::new("decisions", 1, &[("number", Int), ("job", Int), ("body", Text)]),
    Table::new("seen", 1, &[("job", Int), ("attempt", Int), ("body", Text)]),
    Table::new(
        "logs",
        2,
        &[
            ("job", Int),
            ("attempt", Int),
            ("cluster", Text),
            ("taken_at", Int),
            ("truncated", Bool),
            ("size", Int),
        ],
    )
    .sqlite(
        // Earlier versions stored the text here.
        Some(
            "SELECT job, attempt, cluster, taken_at, truncated, coalesce(size, octet_length(text))
             FROM logs ORDER BY job, attempt",
        ),
        Some(
            "INSERT INTO logs (job, attempt, cluster, taken_at, truncated, size, text)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, '')",
        ),
    ),
    Table::new("log_pieces", 3, &[("job", Int), ("attempt", Int), ("start", Int), ("body", Blob)]).sqlite(
        // A text in the place of a blob is a copy of an earlier version; it is packed when it is read.
        Some(
            "SELECT job, attempt, start, body FROM log_pieces
             UNION ALL SELECT job, attempt, 0, text FROM logs WHERE size IS NULL
             ORDER BY 1, 2, 3",
        ),
        None,
    ),
    Table::new("events", 1, &[("last", Int), ("body", Blob)]),
    Table::new("shapes", 1, &[("shape", Int), ("body", Text)]),
    Table::new(
        "runs",
        1,
        &[
            ("run", Int),
            ("shape", Int),
            ("ended", Int),
            ("lasted", Int),
            ("waited", Int),
            ("ran", Int),
            ("state", Int),
            ("job", Maybe),
        ],
    ),
    Table::new("samples", 2, &[("step", Int), ("begun", Int), ("body", Text)]),
    CONTENTS,
    PIECES,
    Table::new("package_names", 1, &[("name", Text), ("sha256", Text)]).at(Home::Catalog, "names"),
];

/// The columns of all tables in `of`, joined by this function, or the key alone.
pub(crate) fn list(
    columns: &[(&'static str, Kind)],
    mut show: impl FnMut(usize, &'static str, Kind) -> String,
) -> String {
    let shown = columns.iter().enumerate().map(|(at, (name, kind))| show(at + 1, name, *kind));
    shown.collect::<Vec<_>>().join(", ")
}
