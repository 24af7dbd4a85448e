-- Sequences of sources for events that were pruned before sequences were kept per org: nobody can say whose they were,
-- so they count for every org. Nothing is added any more.
CREATE TABLE IF NOT EXISTS sources (
    source TEXT PRIMARY KEY,
    seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS sources_only_grow BEFORE UPDATE ON sources
WHEN NEW.source <> OLD.source OR NEW.seq <= OLD.seq
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER IF NOT EXISTS sources_are_not_replaced BEFORE INSERT ON sources
WHEN EXISTS (SELECT 1 FROM sources WHERE source = NEW.source AND seq >= NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER IF NOT EXISTS sources_are_not_deleted BEFORE DELETE ON sources
BEGIN
    SELECT RAISE(ABORT, 'a source is never forgotten');
END;
