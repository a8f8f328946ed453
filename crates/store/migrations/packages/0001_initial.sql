-- What is known of the callers' files. In a file of its own, so that an upload never
-- waits for the writer of the jobs nor makes it wait.

CREATE TABLE contents (
    sha256  TEXT PRIMARY KEY,
    size    INTEGER NOT NULL,
    -- Milliseconds since 1970; exact to a minute.
    used_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE names (
    name   TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL REFERENCES contents (sha256) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX names_of_content ON names (sha256);
