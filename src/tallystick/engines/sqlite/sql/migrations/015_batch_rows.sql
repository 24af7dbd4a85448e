-- Rows of a batch that tasks fill together. They are copied to `view_rows` in one transaction, and until then nobody reads them.

CREATE TABLE batch_rows (
    projection TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    batch BLOB NOT NULL,
    key TEXT NOT NULL,
    state BLOB,
    mark BLOB NOT NULL,
    checksum BLOB,
    PRIMARY KEY (projection, epoch, batch, key)
) STRICT, WITHOUT ROWID;
