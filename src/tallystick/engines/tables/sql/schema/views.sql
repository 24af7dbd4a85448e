-- One row per epoch of a projection: its checkpoint, and how many rows it has in `view_rows`.
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
