-- The keys that values here may be sealed with, by name, and 'plain' while secrets may be here that
-- are not sealed. A name goes when no value needs its key any more.
CREATE TABLE sealed_by (
    key TEXT PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO sealed_by VALUES ('plain');
