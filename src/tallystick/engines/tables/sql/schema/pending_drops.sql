-- What has to be dropped once more when an erasure has been committed: rows, or with an empty projection letters and
-- tables. Noted before the commit and gone after it, because a key may repeat what is erased.
CREATE TABLE IF NOT EXISTS pending_drops (
    position INTEGER NOT NULL,
    projection TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (position, projection, key)
) WITHOUT ROWID;
