-- Rows of a batch that several tasks fill together. They are copied to `view_rows` in one transaction; until then
-- nobody reads them.
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
