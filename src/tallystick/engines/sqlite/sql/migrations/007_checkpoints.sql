-- Where the consumers of this log are.

CREATE TABLE checkpoints (
    name TEXT PRIMARY KEY,
    store_id BLOB NOT NULL,
    position INTEGER NOT NULL,
    link_position INTEGER NOT NULL,
    link BLOB NOT NULL
) STRICT, WITHOUT ROWID;
