-- Policies that were registered while the control plane ran; those of the settings are not here.
CREATE TABLE policies (
    name TEXT PRIMARY KEY,
    spec TEXT NOT NULL
) WITHOUT ROWID;
