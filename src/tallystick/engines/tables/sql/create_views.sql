CREATE TABLE IF NOT EXISTS views (
    projection TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    live INTEGER NOT NULL,
    definition BLOB NOT NULL,
    store_id BLOB NOT NULL,
    position INTEGER NOT NULL,
    link_position INTEGER NOT NULL,
    link BLOB NOT NULL,
    drops INTEGER NOT NULL,
    checksum BLOB,
    row_count INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (projection, epoch)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX IF NOT EXISTS views_live ON views (projection) WHERE live = 1;

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

CREATE TABLE IF NOT EXISTS batch_rows (
    projection TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    batch BLOB NOT NULL,
    key TEXT NOT NULL,
    state BLOB,
    mark BLOB NOT NULL,
    checksum BLOB,
    PRIMARY KEY (projection, epoch, batch, key)
) STRICT, WITHOUT ROWID;
