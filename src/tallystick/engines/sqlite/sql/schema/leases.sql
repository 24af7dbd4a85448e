-- The latest lease of each run. A released lease has no host; its number stays, so that the next one fences it off.
CREATE TABLE IF NOT EXISTS leases (
    stream TEXT PRIMARY KEY,
    number INTEGER NOT NULL CHECK (number > 0),
    host TEXT,
    pid INTEGER,
    started INTEGER,
    handle TEXT
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS leases_only_grow BEFORE UPDATE ON leases
WHEN NEW.stream <> OLD.stream OR NEW.number < OLD.number
BEGIN
    SELECT RAISE(ABORT, 'the number of a lease only grows');
END;

CREATE TRIGGER IF NOT EXISTS leases_are_not_replaced BEFORE INSERT ON leases
WHEN EXISTS (SELECT 1 FROM leases WHERE stream = NEW.stream AND number > NEW.number)
BEGIN
    SELECT RAISE(ABORT, 'the number of a lease only grows');
END;

CREATE TRIGGER IF NOT EXISTS leases_are_not_deleted BEFORE DELETE ON leases
BEGIN
    SELECT RAISE(ABORT, 'a lease is never forgotten');
END;
