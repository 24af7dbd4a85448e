-- Runs, events, audit, sessions. `position` is the event id of the whole log, `seq` the one inside a stream.
-- Times are ns since the epoch and never order anything.

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    tenant_id TEXT,
    status TEXT NOT NULL DEFAULT 'created',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- The columns up to `signature` are the envelope, in its order; payload and meta are canonical JSON as bytes. The rest
-- is outside of every hash: `recorded` is this store's own clock, `org`, `app` and `env` repeat what meta says, because
-- a schema that SQLite need not trust (trusted_schema = OFF) cannot compute them from JSON.
CREATE TABLE events (
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

CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are immutable');
END;

CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are immutable');
END;

-- INSERT OR REPLACE deletes without asking the trigger above, unless the connection has recursive_triggers on.
CREATE TRIGGER events_are_not_replaced BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE position = NEW.position)
    OR EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
    OR EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND seq = NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'events are immutable: the position, the id or the seq exists already');
END;

CREATE VIEW run_events AS
SELECT position AS id, substr(stream, 5) AS run_id, seq, type, version, CAST(payload AS TEXT) AS payload,
    org AS tenant_id, recorded AS created_at
FROM events
WHERE stream >= 'run/' AND stream < 'run0';

-- The audit trail is a reading of the control events: it cannot differ from them and is as immutable as they are.
-- In canonical JSON a quotation mark inside a text is escaped, so `"stream":"run/` can only be a key and its value.
CREATE VIEW audit AS
SELECT id, tenant_id, CASE WHEN named > 0 THEN substr(rest, 1, instr(rest, '"') - 1) END AS run_id,
    type, payload, stream, seq, created_at
FROM (
    SELECT id, tenant_id, type, payload, stream, seq, created_at, named, substr(payload, named + 14) AS rest
    FROM (
        SELECT position AS id, org AS tenant_id, type, CAST(payload AS TEXT) AS payload, stream, seq,
            recorded AS created_at, instr(CAST(payload AS TEXT), '"stream":"run/') AS named
        FROM events
        WHERE stream >= 'tally.' AND stream < 'tally/'
    )
);

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    tenant_id TEXT,
    run_id TEXT,
    actor_id TEXT,
    status TEXT NOT NULL DEFAULT 'open',
    started_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
