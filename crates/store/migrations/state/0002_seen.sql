-- What the cluster of a job's latest attempt last said of its process, as JSON: node, driver,
-- exit code. Status calls are answered from here.
CREATE TABLE seen (
    job     INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL,
    body    TEXT    NOT NULL
);
