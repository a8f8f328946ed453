-- How the pool stood, in steps of `step` seconds that began at `begun` (ms): see samples.rs, which also
-- says how long each step is kept.
CREATE TABLE samples (
    step  INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    body  TEXT    NOT NULL,
    PRIMARY KEY (step, begun)
) WITHOUT ROWID;

-- The job of a run, while it is stored. A number may be used again: the job that was submitted at the
-- same moment is the one.
ALTER TABLE runs ADD COLUMN job INTEGER;
