-- Handles that are open for writing, for people to read. Locks decide whether anyone writes.
CREATE TABLE IF NOT EXISTS writers (
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    handle TEXT PRIMARY KEY,
    opened_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
