-- When the job of an orphan was accepted. NULL in rows of earlier versions.
ALTER TABLE orphans ADD COLUMN life INTEGER;
