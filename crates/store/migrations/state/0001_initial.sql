-- Everything of one control plane except the packages. Records are JSON, so that they
-- may gain fields; columns hold only what questions are asked by.

-- One row: who we are, told to the clusters with every job.
CREATE TABLE plane (id TEXT NOT NULL);
INSERT INTO plane VALUES ('plane-' || lower(hex(randomblob(10))));

-- `job` numbers jobs in the order in which they were accepted; every other table names
-- a job by it. Found by id through an index in memory (see index.rs): ids are random, so
-- an index in the file would touch a page for each.
-- `class` is kind * 16 + state, see class.rs.
CREATE TABLE jobs (
    job    INTEGER PRIMARY KEY,
    class  INTEGER NOT NULL,
    id     TEXT    NOT NULL,
    record TEXT    NOT NULL
);
CREATE INDEX jobs_of_class ON jobs (class);

CREATE TABLE payloads (
    job  INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);

-- Where a job is or was, with its present class, to list by cluster.
CREATE TABLE job_clusters (
    job     INTEGER NOT NULL,
    cluster TEXT    NOT NULL,
    class   INTEGER NOT NULL,
    PRIMARY KEY (job, cluster)
) WITHOUT ROWID;
CREATE INDEX jobs_of_cluster ON job_clusters (cluster, class, job);

-- The packages a job needs, by the SHA-256 of their content.
CREATE TABLE job_packages (
    job    INTEGER NOT NULL,
    sha256 BLOB    NOT NULL,
    PRIMARY KEY (job, sha256)
) WITHOUT ROWID;

CREATE TABLE attempts (
    job     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    record  TEXT    NOT NULL,
    PRIMARY KEY (job, attempt)
) WITHOUT ROWID;

CREATE TABLE decisions (
    number INTEGER PRIMARY KEY,
    job    INTEGER NOT NULL,
    body   TEXT    NOT NULL
);
CREATE INDEX decisions_of_job ON decisions (job);

CREATE TABLE logs (
    job       INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    cluster   TEXT    NOT NULL,
    taken_at  INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    text      TEXT    NOT NULL,
    PRIMARY KEY (job, attempt)
);

-- Many events per row, in the format of events.rs, keyed by the last of them. The newest
-- row is never deleted: the numbers go on from it.
CREATE TABLE events (
    last INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);

CREATE TABLE clusters (
    name   TEXT PRIMARY KEY,
    record TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE orphans (
    cluster TEXT    NOT NULL,
    job     TEXT    NOT NULL,
    attempt INTEGER NOT NULL,
    PRIMARY KEY (cluster, job, attempt)
) WITHOUT ROWID;
