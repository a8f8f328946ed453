-- How the pool stood, in steps of `step` seconds that began at `begun` (ms), see samples.rs.
CREATE TABLE multicluster.samples (
    step  bigint NOT NULL,
    begun bigint NOT NULL,
    body  text COLLATE "C" NOT NULL,
    PRIMARY KEY (step, begun)
);

-- The job of a run, while it is stored. A number may be used again: the job that was submitted at the
-- same moment is the one. Programs of version 1 leave it empty.
ALTER TABLE multicluster.runs ADD COLUMN job bigint;
