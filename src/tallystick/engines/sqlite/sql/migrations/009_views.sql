-- The rows of projections, and what consumers could not handle.

CREATE TABLE views (
    projection TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    live INTEGER NOT NULL,
    definition BLOB NOT NULL,
    store_id BLOB NOT NULL,
    position INTEGER NOT NULL,
    link_position INTEGER NOT NULL,
    link BLOB NOT NULL,
    drops INTEGER NOT NULL,
    PRIMARY KEY (projection, epoch)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX views_live ON views (projection) WHERE live = 1;

CREATE TABLE view_rows (
    projection TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    key TEXT NOT NULL,
    state BLOB,
    mark BLOB NOT NULL,
    PRIMARY KEY (projection, epoch, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX view_rows_dropped ON view_rows (projection, epoch) WHERE state IS NULL;

CREATE TABLE dead_letters (
    consumer TEXT NOT NULL,
    position INTEGER NOT NULL,
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    parked INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (position, consumer)
) STRICT, WITHOUT ROWID;
