-- Copies of logs in compressed pieces (zlib), each with its position in the copy. Copies of
-- earlier versions stay in logs.text, where `size` is NULL, until they are replaced.
CREATE TABLE log_pieces (
    job     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    start   INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (job, attempt, start)
);
ALTER TABLE logs ADD COLUMN size INTEGER;
