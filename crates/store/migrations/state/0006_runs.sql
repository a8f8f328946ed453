-- Jobs that ran to their end, in the order in which they ended: what advice and replays need of them,
-- for longer than the jobs themselves are kept. Times are in ms: when it ended, how long before that
-- it was submitted, how long it waited until it first ran, how long its last attempt ran.
-- `state` is 0 succeeded, 1 failed, 2 stopped.
CREATE TABLE runs (
    run    INTEGER PRIMARY KEY,
    shape  INTEGER NOT NULL,
    ended  INTEGER NOT NULL,
    lasted INTEGER NOT NULL,
    waited INTEGER NOT NULL,
    ran    INTEGER NOT NULL,
    state  INTEGER NOT NULL
);

-- What many runs have in common, as JSON: their work and their cluster. Numbered in the order in which
-- runs first needed them; see runs.rs for how they are forgotten.
CREATE TABLE shapes (
    shape INTEGER PRIMARY KEY,
    body  TEXT NOT NULL
);
