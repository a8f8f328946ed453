//! Moving a control plane from one backend to another, offline: `ray-multicluster store copy`.
//!
//! Rows are passed on table by table, from one list of tables (`tables`), in bounded memory. The source
//! is held so that nobody uses it meanwhile, and so is the target, which must be empty. The target
//! is complete at once or not at all: one transaction in PostgreSQL, a directory that is moved into its
//! place with SQLite. Before that, both sides are read again and compared by a digest.
//!
//! What is sealed stays as it is: it belongs to the control plane, whose name is copied.

mod row;
pub(crate) mod tables;

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use multicluster_types::hex;
use sha2::{Digest as _, Sha256};

pub(crate) use self::row::{Row, Value};
use self::{
    row::{Digest, Packages, bytes},
    tables::{KEYS, PLANE, TABLES, TOKENS, Table},
};
use crate::{
    Keys, StoreError, postgres,
    seal::{self, PLAIN, Seals},
    sqlite,
};

/// Rows are written after this many bytes,
const BATCH_BYTES: usize = 4 << 20;
/// or after this many rows.
const BATCH: usize = 2_000;

/// Where a control plane is stored.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A state directory.
    Sqlite(PathBuf),
    /// A database, by its URL.
    Postgres(String),
}

impl FromStr for Place {
    type Err = CopyError;

    fn from_str(text: &str) -> Result<Self, CopyError> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            postgres::copy::shown(text)?;
            return Ok(Self::Postgres(text.to_owned()));
        }
        match text.strip_prefix("sqlite:") {
            Some(dir) if !dir.is_empty() => Ok(Self::Sqlite(dir.into())),
            // Without the text: it may have a password.
            _ => Err(CopyError::NoPlace),
        }
    }
}

/// Without user and password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(dir) => write!(f, "sqlite:{}", dir.display()),
            Self::Postgres(url) => f.write_str(&postgres::copy::shown(url).unwrap_or_default()),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a control plane was not copied. Nothing that looks like a control plane is left in the target.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Neither a directory nor a database.
    #[error(
        "a store is sqlite:DIR or a URL of PostgreSQL\n  hint: --from sqlite:DIR --to postgres://user@host/database"
    )]
    NoPlace,
    /// As they are, the two cannot be copied.
    #[error("{what}\n  hint: {hint}")]
    #[allow(missing_docs, reason = "the names of the fields say it")]
    Refused { what: String, hint: String },
    /// The source is not whole.
    #[error("{0}\n  hint: start the control plane once, which forgets what is lost, stop it, and copy again")]
    Damaged(String),
    /// What was written is not what was read.
    #[error(
        "the copy differs from its source in {tables}, and was not kept\n  hint: try again; if it differs again, please report it"
    )]
    Differs {
        /// The tables.
        tables: String,
    },
    /// An error of one side.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CopyError {
    pub(crate) fn refused(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { what: what.into(), hint: hint.into() }
    }
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Rows are written to the target.
    Copies,
    /// The source is read again.
    ChecksSource,
    /// The target is read again.
    ChecksTarget,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done,
    pub step: Step,
    /// with this table.
    pub table: &'static str,
    /// Rows of it so far.
    pub rows: u64,
    /// Bytes of all tables so far.
    pub bytes: u64,
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The name of the control plane.
    pub plane: String,
    /// The tables and how many rows each has.
    pub tables: Vec<(&'static str, u64)>,
    /// SHA-256 over all rows, in hexadecimal digits: the same for both sides.
    pub digest: String,
    /// Bytes of all values.
    pub bytes: u64,
}

/// Passes on one row.
pub(crate) type Each<'a> = &'a mut dyn FnMut(Row) -> Result<(), CopyError>;

/// One side, held so that nobody else uses it.
pub(crate) trait Side {
    /// All rows of a table, ordered by its key.
    fn read(&mut self, table: &Table, each: Each<'_>) -> Result<(), CopyError>;
    /// Adds rows to the target.
    fn write(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), CopyError>;
    /// Are tokens stored sealed there?
    fn seals_tokens(&self) -> bool;
    /// Fails if anybody else may have used the source, and holds it until it is finished.
    fn confirm(&mut self) -> Result<(), CopyError>;
    /// Makes the target complete, and releases what is held.
    fn finish(self: Box<Self>) -> Result<(), CopyError>;
}

/// Copies a control plane. With the keys that its secrets are sealed with, if they are.
///
/// Blocks; not to be called by a task of an async runtime.
///
/// # Errors
/// When one of the sides is in use or not as it must be, and as the stores say.
pub fn copy(
    from: &Place,
    to: &Place,
    keys: Option<&Arc<Keys>>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Copied, CopyError> {
    let mut source: Box<dyn Side> = match from {
        Place::Sqlite(dir) => Box::new(sqlite::copy::source(dir, keys)?),
        Place::Postgres(url) => Box::new(postgres::copy::source(url, keys)?),
    };
    let mut target: Box<dyn Side> = match to {
        Place::Sqlite(dir) => Box::new(sqlite::copy::target(dir)?),
        Place::Postgres(url) => Box::new(postgres::copy::target(url)?),
    };
    let plane = Plane::of(&mut *source, keys)?;
    pass(&mut *source, &mut *target, &plane, progress)?;
    let (read, written) = (
        digest(&mut *source, &plane, Step::ChecksSource, progress)?,
        digest(&mut *target, &plane, Step::ChecksTarget, progress)?,
    );
    let differ = read.tables.iter().zip(&written.tables).filter(|(one, other)| one != other);
    let differ: Vec<_> = differ.map(|(table, _)| table.0).collect();
    if !differ.is_empty() {
        return Err(CopyError::Differs { tables: differ.join(", ") });
    }
    source.confirm()?;
    target.finish()?;
    source.finish()?;
    let tables = read.tables.iter().map(|(name, rows, _)| (*name, *rows)).collect();
    Ok(Copied { plane: plane.name, tables, digest: read.whole(), bytes: read.bytes })
}

/// The names of all tables that are copied, and of their columns.
pub fn tables() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    TABLES.iter().map(|table| (table.name, table.columns.iter().map(|(name, _)| *name).collect()))
}

/// What is to be known before the first row is passed on.
struct Plane {
    name: String,
    seals: Seals,
    /// The key that seals the tokens, where they are sealed: one that the control plane needs already.
    key: Option<String>,
}

impl Plane {
    fn of(source: &mut dyn Side, keys: Option<&Arc<Keys>>) -> Result<Self, CopyError> {
        let mut texts = |table: &Table| -> Result<Vec<String>, CopyError> {
            let mut texts = Vec::new();
            source.read(table, &mut |row| {
                texts.extend(row.first().and_then(Value::text).map(str::to_owned));
                Ok(())
            })?;
            Ok(texts)
        };
        let name = texts(&PLANE)?.pop();
        let name = name.ok_or_else(|| CopyError::Damaged("the control plane has no name".into()))?;
        let needed = texts(&KEYS)?;
        let known = keys.into_iter().flat_map(|keys| keys.ids());
        let key = known.map(seal::KeyId::as_str).find(|id| needed.iter().any(|key| key == id));
        let key = key.map(str::to_owned);
        if key.is_none() && !needed.iter().any(|key| key == PLAIN) {
            return Err(CopyError::Damaged("the list of keys is empty".into()));
        }
        Ok(Self { seals: Seals::new(keys.cloned(), name.as_str()), name, key })
    }

    /// Tokens as they are in a file.
    fn opened(&self, table: &Table, row: Row) -> Result<Row, CopyError> {
        let Some(stored) = tokens(table, &row) else { return Ok(row) };
        let text = self.seals.open(seal::Place::Tokens, stored);
        let text = text.map_err(|error| CopyError::Damaged(format!("the tokens: {error}")))?;
        Ok(vec![Value::Text(text.into_owned())])
    }

    /// Tokens as they are in a database.
    fn sealed(&self, table: &Table, row: Row) -> Result<Row, CopyError> {
        let (Some(text), Some(key)) = (tokens(table, &row), &self.key) else { return Ok(row) };
        let stored = self.seals.seal_with(key, seal::Place::Tokens, text);
        let stored = stored.map_err(|error| CopyError::Damaged(format!("the tokens: {error}")))?;
        Ok(vec![Value::Text(stored)])
    }
}

fn tokens<'r>(table: &Table, row: &'r Row) -> Option<&'r str> {
    row.first().filter(|_| table.name == TOKENS.name).and_then(Value::text)
}

/// Writes everything to the target.
fn pass(
    source: &mut dyn Side,
    target: &mut dyn Side,
    plane: &Plane,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), CopyError> {
    let mut total = 0;
    for table in TABLES {
        let (mut batch, mut size, mut rows) = (Vec::new(), 0, 0);
        let mut tell =
            |rows, bytes| progress(&Progress { step: Step::Copies, table: table.name, rows, bytes });
        tell(0, total);
        source.read(table, &mut |row| {
            let mut row = plane.opened(table, row)?;
            if target.seals_tokens() {
                row = plane.sealed(table, row)?;
            }
            size += bytes(&row);
            total += bytes(&row) as u64;
            rows += 1;
            batch.push(row);
            if batch.len() >= BATCH || size >= BATCH_BYTES {
                size = 0;
                target.write(table, std::mem::take(&mut batch))?;
                tell(rows, total);
            }
            Ok(())
        })?;
        if !batch.is_empty() {
            target.write(table, batch)?;
        }
    }
    Ok(())
}

/// The digest of one side.
struct Sum {
    tables: Vec<(&'static str, u64, [u8; 32])>,
    bytes: u64,
}

impl Sum {
    fn whole(&self) -> String {
        let mut hash = Sha256::new();
        for (name, rows, digest) in &self.tables {
            hash.update(format!("{name}\0{rows}\0"));
            hash.update(digest);
        }
        hex(&hash.finalize())
    }
}

fn digest(
    side: &mut dyn Side,
    plane: &Plane,
    step: Step,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Sum, CopyError> {
    let mut sum = Sum { tables: Vec::new(), bytes: 0 };
    let mut packages = Packages::default();
    for table in TABLES {
        let mut digest = Digest::default();
        let mut told = sum.bytes;
        let mut tell = |rows, bytes| progress(&Progress { step, table: table.name, rows, bytes });
        tell(0, sum.bytes);
        side.read(table, &mut |row| {
            let row = plane.opened(table, row)?;
            packages.add(table, &row)?;
            digest.add(&row);
            sum.bytes += bytes(&row) as u64;
            if sum.bytes - told >= BATCH_BYTES as u64 {
                told = sum.bytes;
                tell(digest.rows, sum.bytes);
            }
            Ok(())
        })?;
        sum.tables.push((table.name, digest.rows, digest.end()));
    }
    packages.are_complete()?;
    Ok(sum)
}
