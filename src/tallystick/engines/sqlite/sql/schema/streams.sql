-- Where each stream ends.
CREATE TABLE IF NOT EXISTS streams (
    stream TEXT PRIMARY KEY,
    seq INTEGER NOT NULL CHECK (seq > 0),
    link BLOB NOT NULL CHECK (length(link) = 32),
    org TEXT
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS streams_only_grow BEFORE UPDATE ON streams
WHEN NEW.stream <> OLD.stream OR NEW.seq <= OLD.seq OR (OLD.org IS NOT NULL AND NEW.org IS NOT OLD.org)
BEGIN
    SELECT RAISE(ABORT, 'a stream only grows, and keeps its org');
END;

CREATE TRIGGER IF NOT EXISTS streams_are_not_replaced BEFORE INSERT ON streams
WHEN EXISTS (SELECT 1 FROM streams WHERE stream = NEW.stream AND seq >= NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'a stream only grows, and keeps its org');
END;

CREATE TRIGGER IF NOT EXISTS streams_are_not_deleted BEFORE DELETE ON streams
BEGIN
    SELECT RAISE(ABORT, 'a stream is never forgotten');
END;
