-- The last sequence of each source, per org that its events name; '' is for events that name none.
CREATE TABLE IF NOT EXISTS org_sources (
    org TEXT NOT NULL,
    source TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (org, source)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS org_sources_only_grow BEFORE UPDATE ON org_sources
WHEN NEW.org <> OLD.org OR NEW.source <> OLD.source OR NEW.seq <= OLD.seq
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER IF NOT EXISTS org_sources_are_not_replaced BEFORE INSERT ON org_sources
WHEN EXISTS (SELECT 1 FROM org_sources WHERE org = NEW.org AND source = NEW.source AND seq >= NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER IF NOT EXISTS org_sources_are_not_deleted BEFORE DELETE ON org_sources
BEGIN
    SELECT RAISE(ABORT, 'a source is never forgotten');
END;
