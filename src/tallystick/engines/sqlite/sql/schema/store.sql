-- One row: the identity of the store. It is written when the store is created.
CREATE TABLE IF NOT EXISTS store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store_id BLOB NOT NULL CHECK (length(store_id) = 16),
    profile TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER IF NOT EXISTS store_is_not_changed BEFORE UPDATE ON store
BEGIN
    SELECT RAISE(ABORT, 'the identity of a store is immutable');
END;

CREATE TRIGGER IF NOT EXISTS store_is_not_replaced BEFORE INSERT ON store
WHEN EXISTS (SELECT 1 FROM store)
BEGIN
    SELECT RAISE(ABORT, 'the identity of a store is immutable');
END;

CREATE TRIGGER IF NOT EXISTS store_is_not_deleted BEFORE DELETE ON store
BEGIN
    SELECT RAISE(ABORT, 'the identity of a store is immutable');
END;
