-- The log. The columns up to `signature` are the envelope, in its order; payload and meta are canonical JSON as bytes.
-- No hash covers the other columns: `recorded` is the clock of this store; `org`, `app` and `env` repeat what meta
-- says, because a schema that SQLite need not trust (trusted_schema = OFF) cannot compute them from JSON.
-- Every index ends with the rowid, which is `position`: the last two are (type, position) and (org, position).
CREATE TABLE IF NOT EXISTS events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL CHECK (seq > 0),
    type TEXT NOT NULL,
    version INTEGER NOT NULL,
    id BLOB NOT NULL CHECK (length(id) = 16),
    time INTEGER NOT NULL,
    payload BLOB,
    meta BLOB NOT NULL,
    checksum BLOB NOT NULL CHECK (length(checksum) = 32),
    link BLOB NOT NULL CHECK (length(link) = 32),
    signature BLOB,
    recorded INTEGER NOT NULL,
    org TEXT,
    app TEXT,
    env TEXT,
    UNIQUE (stream, seq),
    UNIQUE (id)
) STRICT;

CREATE INDEX IF NOT EXISTS events_by_type ON events (type);

CREATE INDEX IF NOT EXISTS events_by_org ON events (org) WHERE org IS NOT NULL;

-- INSERT OR REPLACE deletes without asking the trigger for DELETE, unless recursive_triggers is on.
CREATE TRIGGER IF NOT EXISTS events_are_not_replaced BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE position = NEW.position)
    OR EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
    OR EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND seq = NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'events are immutable: the position, the id or the seq exists already');
END;

CREATE TRIGGER IF NOT EXISTS events_are_not_deleted BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM cuts WHERE stream = OLD.stream AND through >= OLD.seq)
BEGIN
    SELECT RAISE(ABORT, 'events are immutable');
END;

CREATE TRIGGER IF NOT EXISTS pruned_events_are_noted AFTER DELETE ON events
BEGIN
    INSERT INTO pruned (position, id, type, org) VALUES (OLD.position, OLD.id, OLD.type, OLD.org);
END;

-- Column by column, not UPDATE OF: that list would not see a change of `rowid`, which is `position`.
CREATE TRIGGER IF NOT EXISTS events_are_not_changed BEFORE UPDATE ON events
WHEN NEW.payload IS NOT NULL OR OLD.payload IS NULL
    OR NOT EXISTS (SELECT 1 FROM erasures WHERE position = OLD.position AND checksum = OLD.checksum)
    OR NEW.position IS NOT OLD.position OR NEW.stream IS NOT OLD.stream OR NEW.seq IS NOT OLD.seq
    OR NEW.type IS NOT OLD.type OR NEW.version IS NOT OLD.version OR NEW.id IS NOT OLD.id
    OR NEW.time IS NOT OLD.time OR NEW.meta IS NOT OLD.meta OR NEW.checksum IS NOT OLD.checksum
    OR NEW.link IS NOT OLD.link OR NEW.signature IS NOT OLD.signature OR NEW.recorded IS NOT OLD.recorded
    OR NEW.org IS NOT OLD.org OR NEW.app IS NOT OLD.app OR NEW.env IS NOT OLD.env
BEGIN
    SELECT RAISE(ABORT, 'events are immutable');
END;
