-- The checkpoints of consumers. `checksum` is explained in `store/row_checks.py`.
CREATE TABLE IF NOT EXISTS checkpoints (
    name TEXT PRIMARY KEY,
    store_id BLOB NOT NULL,
    position INTEGER NOT NULL,
    link_position INTEGER NOT NULL,
    link BLOB NOT NULL,
    checksum BLOB
) STRICT, WITHOUT ROWID;
