-- What owners and groups of owners had of the pool on average, as JSON.
CREATE TABLE usage (
    owner  TEXT PRIMARY KEY,
    record TEXT NOT NULL
) WITHOUT ROWID;
