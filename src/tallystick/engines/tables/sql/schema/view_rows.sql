-- The rows of projections. A row whose state is NULL was dropped and will be folded again.
CREATE TABLE IF NOT EXISTS view_rows (
    projection TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    key TEXT NOT NULL,
    state BLOB,
    mark BLOB NOT NULL,
    checksum BLOB,
    PRIMARY KEY (projection, epoch, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS view_rows_dropped ON view_rows (projection, epoch) WHERE state IS NULL;
