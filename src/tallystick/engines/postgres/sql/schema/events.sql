-- The log itself. The columns up to `signature` are the envelope in its order; payload and meta are canonical JSON,
-- stored as the text they are. No hash covers the other columns: `recorded` is the clock of the appender's host, and
-- `org`, `app` and `env` are copied from meta.

-- CACHE 1: a session that kept numbers for later would give them out after readers have passed them.
CREATE SEQUENCE tally.positions AS bigint CACHE 1 NO CYCLE;

CREATE TABLE tally.events (
    position bigint PRIMARY KEY DEFAULT tally.draw(1),
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL CHECK (seq > 0),
    type text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    id uuid NOT NULL,
    time bigint NOT NULL,
    payload text COLLATE "C",
    meta text COLLATE "C" NOT NULL,
    checksum bytea NOT NULL CHECK (octet_length(checksum) = 32),
    link bytea NOT NULL CHECK (octet_length(link) = 32),
    signature bytea,
    recorded bigint NOT NULL,
    org text COLLATE "C",
    app text COLLATE "C",
    env text COLLATE "C"
);

ALTER SEQUENCE tally.positions OWNED BY tally.events.position;

-- NOT VALID, as in stores that are older than this check: events that are stored there are not looked at.
ALTER TABLE tally.events ADD CONSTRAINT signatures_have_64_bytes CHECK (octet_length(signature) = 64) NOT VALID;

CREATE UNIQUE INDEX events_by_stream ON tally.events (stream, seq);
CREATE UNIQUE INDEX events_by_id ON tally.events (id);
CREATE INDEX events_by_type ON tally.events (type, position);
CREATE INDEX events_by_org ON tally.events (org, position) WHERE org IS NOT NULL;

-- The triggers hold for every role, also while replication is being applied.
CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE ON tally.events
FOR EACH ROW EXECUTE FUNCTION tally.judge_change();

CREATE TRIGGER events_are_not_truncated BEFORE TRUNCATE ON tally.events
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER appends_are_announced BEFORE INSERT ON tally.events
FOR EACH STATEMENT EXECUTE FUNCTION tally.announce_append();

CREATE TRIGGER pruned_events_are_noted AFTER DELETE ON tally.events
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tally.note_pruned();

ALTER TABLE tally.events ENABLE ALWAYS TRIGGER events_are_not_changed;
ALTER TABLE tally.events ENABLE ALWAYS TRIGGER events_are_not_truncated;
ALTER TABLE tally.events ENABLE ALWAYS TRIGGER appends_are_announced;
ALTER TABLE tally.events ENABLE ALWAYS TRIGGER pruned_events_are_noted;

GRANT SELECT ON tally.events TO tally_app, tally_maintenance, tally_reader;
-- So that a commit that locks the whole log can tell where its events will be.
GRANT SELECT ON SEQUENCE tally.positions TO tally_app;
