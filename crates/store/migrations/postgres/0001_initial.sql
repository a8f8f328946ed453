-- Everything of one control plane, in the schema `multicluster`. Records are JSON as text, so that they
-- may gain fields, and jsonb costs a third; columns hold only what questions are asked by.

-- One row: the version of this schema, and the oldest program that can work with it beside newer ones.
-- `plane` is who we are, told to the clusters with every job.
CREATE TABLE multicluster.state (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  integer NOT NULL,
    oldest   integer NOT NULL,
    plane    text    NOT NULL
);
INSERT INTO multicluster.state (version, oldest, plane)
VALUES (0, 0, 'plane-' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 20));

-- Which history of which database this is. A server restored from a backup and a standby that was
-- promoted both get a new timeline. Some hosted servers hide either.
CREATE FUNCTION multicluster.origin() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    system   text := '?';
    timeline text := '?';
BEGIN
    BEGIN
        SELECT s.system_identifier::text INTO system FROM pg_catalog.pg_control_system() AS s;
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    BEGIN
        timeline := substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8);
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    RETURN system || '/' || timeline;
END $$;

-- One row: who leads. Its lease has ended once it has not changed for `lease_ms`, by the clock of the
-- replica that looks, or at once if that is 0: the leader has resigned. `since` is by this server's clock.
-- `token` is of one leadership, even if an epoch was lost and is issued again. `mark` is of the last
-- commit, so that one commit is never taken for another with the same number. `rewound`: the server may
-- have lost commits, and what the clusters run was not looked at since.
CREATE TABLE multicluster.lead (
    name       text PRIMARY KEY,
    epoch      bigint NOT NULL,
    seq        bigint NOT NULL,
    holder     text,
    address    text,
    since      timestamptz NOT NULL,
    lease_ms   bigint NOT NULL,
    origin     text NOT NULL,
    token      text NOT NULL,
    mark       bigint NOT NULL,
    rewound    boolean NOT NULL
) WITH (fillfactor = 10);
INSERT INTO multicluster.lead VALUES
    ('lead', 0, 0, NULL, NULL, 'epoch', 0, multicluster.origin(), '', 0, false);

-- The first statement of every commit of the leader. Fails with SQLSTATE RM001 if another one leads, or
-- if the last commit was not the one before this, and all that follows in the transaction with it.
CREATE FUNCTION multicluster.fence(
    my_token text, my_epoch bigint, my_seq bigint, my_mark bigint, my_lease_ms bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found_row multicluster.lead;
BEGIN
    -- A commit that is not durable is none.
    IF pg_catalog.current_setting('synchronous_commit') = 'off' AND my_lease_ms > 0 THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
    END IF;
    UPDATE multicluster.lead
    SET seq = my_seq, mark = my_mark, lease_ms = pg_catalog.abs(my_lease_ms)
    WHERE epoch = my_epoch AND token = my_token AND seq = my_seq - 1;
    IF NOT FOUND THEN
        SELECT * INTO found_row FROM multicluster.lead;
        RAISE EXCEPTION 'epoch % of % at commit % leads', found_row.epoch, found_row.holder, found_row.seq
            USING ERRCODE = 'RM001';
    END IF;
END $$;

-- The keys that values here may be sealed with, by name, and 'plain' while secrets may be here that are
-- not sealed. A name goes when no value needs its key any more.
CREATE TABLE multicluster.sealed_by (
    key text COLLATE "C" PRIMARY KEY
);
INSERT INTO multicluster.sealed_by VALUES ('plain');

-- The tokens of all replicas, as JSON, if there ever were any.
CREATE TABLE multicluster.tokens (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  bigint NOT NULL,
    body     text COLLATE "C" NOT NULL
);

-- Replicas that run, or ran lately.
CREATE TABLE multicluster.replicas (
    name    text PRIMARY KEY,
    address text NOT NULL,
    version text NOT NULL,
    seen_at timestamptz NOT NULL
);

-- `job` numbers jobs in the order in which they were accepted; every other table names a job by it.
-- `class` is kind * 16 + state, see class.rs.
CREATE TABLE multicluster.jobs (
    job    bigint PRIMARY KEY,
    class  smallint NOT NULL,
    id     text COLLATE "C" NOT NULL,
    record text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX jobs_of_id ON multicluster.jobs (id);
CREATE INDEX jobs_of_class ON multicluster.jobs (class, job);

CREATE TABLE multicluster.payloads (
    job  bigint PRIMARY KEY,
    body text COLLATE "C" NOT NULL
);

-- Where a job is or was, with its present class, to list by cluster.
CREATE TABLE multicluster.job_clusters (
    job     bigint NOT NULL,
    cluster text COLLATE "C" NOT NULL,
    class   smallint NOT NULL,
    PRIMARY KEY (job, cluster)
);
CREATE INDEX jobs_of_cluster ON multicluster.job_clusters (cluster, class, job);

-- The packages a job needs, by the SHA-256 of their content.
CREATE TABLE multicluster.job_packages (
    job    bigint NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, sha256)
);
CREATE INDEX jobs_of_package ON multicluster.job_packages (sha256);

CREATE TABLE multicluster.attempts (
    job     bigint NOT NULL,
    attempt bigint NOT NULL,
    record  text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, attempt)
);

CREATE TABLE multicluster.decisions (
    number bigint PRIMARY KEY,
    job    bigint NOT NULL,
    body   text COLLATE "C" NOT NULL
);
CREATE INDEX decisions_of_job ON multicluster.decisions (job, number);

-- Copies of logs in compressed pieces (zlib), each with its position in the copy.
CREATE TABLE multicluster.logs (
    job       bigint NOT NULL,
    attempt   bigint NOT NULL,
    cluster   text COLLATE "C" NOT NULL,
    taken_at  bigint NOT NULL,
    truncated boolean NOT NULL,
    size      bigint NOT NULL,
    PRIMARY KEY (job, attempt)
);
CREATE TABLE multicluster.log_pieces (
    job     bigint NOT NULL,
    attempt bigint NOT NULL,
    start   bigint NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (job, attempt, start)
);
ALTER TABLE multicluster.log_pieces ALTER COLUMN body SET STORAGE EXTERNAL;

-- What the cluster of a job's latest attempt last said of its process.
CREATE TABLE multicluster.seen (
    job     bigint PRIMARY KEY,
    attempt bigint NOT NULL,
    body    text COLLATE "C" NOT NULL
);

-- Many events per row, in the format of events.rs, keyed by the last of them. The newest row is never
-- deleted: the numbers go on from it. Not compressed, because rows are searched.
CREATE TABLE multicluster.events (
    last bigint PRIMARY KEY,
    body bytea NOT NULL
);
ALTER TABLE multicluster.events ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE multicluster.clusters (
    name   text COLLATE "C" PRIMARY KEY,
    record text COLLATE "C" NOT NULL
);

CREATE TABLE multicluster.orphans (
    cluster text COLLATE "C" NOT NULL,
    job     text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    life    bigint,
    PRIMARY KEY (cluster, job, attempt)
);

CREATE TABLE multicluster.policies (
    name text COLLATE "C" PRIMARY KEY,
    spec text COLLATE "C" NOT NULL
);

-- What owners and groups of owners had of the pool on average.
CREATE TABLE multicluster.usage (
    owner  text COLLATE "C" PRIMARY KEY,
    record text COLLATE "C" NOT NULL
);

-- Jobs that ran to their end, in the order in which they ended. Times are in ms: when it ended, how long
-- before that it was submitted, how long it waited until it first ran, how long its last attempt ran.
-- `state` is 0 succeeded, 1 failed, 2 stopped.
CREATE TABLE multicluster.runs (
    run    bigint PRIMARY KEY,
    shape  bigint NOT NULL,
    ended  bigint NOT NULL,
    lasted bigint NOT NULL,
    waited bigint NOT NULL,
    ran    bigint NOT NULL,
    state  smallint NOT NULL
);

-- What many runs have in common: their work and their cluster, see history.rs.
CREATE TABLE multicluster.shapes (
    shape bigint PRIMARY KEY,
    body  text COLLATE "C" NOT NULL
);

-- The callers' files, in pieces. A content is visible once it is in `contents`: then it is complete.
CREATE TABLE multicluster.package_uploads (
    upload   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE multicluster.package_pieces (
    upload bigint NOT NULL,
    piece  bigint NOT NULL,
    body   bytea NOT NULL,
    PRIMARY KEY (upload, piece)
);
ALTER TABLE multicluster.package_pieces ALTER COLUMN body SET STORAGE EXTERNAL;
-- `used_at` is in milliseconds since 1970, exact to a minute.
CREATE TABLE multicluster.contents (
    sha256  text COLLATE "C" PRIMARY KEY,
    size    bigint NOT NULL,
    used_at bigint NOT NULL,
    upload  bigint NOT NULL UNIQUE
);
CREATE TABLE multicluster.package_names (
    name   text COLLATE "C" PRIMARY KEY,
    sha256 text COLLATE "C" NOT NULL REFERENCES multicluster.contents (sha256) ON DELETE CASCADE
);
CREATE INDEX names_of_content ON multicluster.package_names (sha256);
