-- What the cluster of a job's latest attempt last said of its process, as JSON: node, driver,
-- exit code. Status calls are answered from here.
CREATE TABLE seen (
    job     INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL,
    body    TEXT    NOT NULL
);

-- Policies that were registered while the control plane ran; those of the settings are not here.
CREATE TABLE policies (
    name TEXT PRIMARY KEY,
    spec TEXT NOT NULL
) WITHOUT ROWID;
