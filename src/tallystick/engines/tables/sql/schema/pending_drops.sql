-- What must be dropped again after an erasure was committed: rows, or if the projection is empty, letters and tables.
-- Written before the commit and deleted after it, because a key may repeat what is erased.
CREATE TABLE IF NOT EXISTS pending_drops (
    position INTEGER NOT NULL,
    projection TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (position, projection, key)
) WITHOUT ROWID;
