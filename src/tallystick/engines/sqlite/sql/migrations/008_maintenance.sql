-- What may happen to a log besides appending: prefixes are cut, payloads erased, snapshots kept, commands remembered.
-- Each is let through only for what a control event names. In canonical JSON a quotation mark inside a text is escaped,
-- so `"through":7` can only be a key and its value.

-- One row a prune, and none is ever changed: what is gone of a stream is the row with its highest `through`.
CREATE TABLE cuts (
    stream TEXT NOT NULL,
    through INTEGER NOT NULL CHECK (through > 0),
    link BLOB NOT NULL CHECK (length(link) = 32),
    first_position INTEGER NOT NULL CHECK (first_position > 0),
    last_position INTEGER NOT NULL CHECK (last_position >= first_position),
    count INTEGER NOT NULL CHECK (count > 0),
    org TEXT,
    fact_position INTEGER NOT NULL,
    PRIMARY KEY (stream, through)
) STRICT, WITHOUT ROWID;

CREATE INDEX cuts_by_position ON cuts (last_position);

CREATE TRIGGER cuts_only_grow BEFORE INSERT ON cuts
WHEN NEW.stream >= 'tally.' AND NEW.stream < 'tally/'
    OR EXISTS (
        SELECT 1 FROM cuts
        WHERE stream = NEW.stream AND (through >= NEW.through OR last_position >= NEW.last_position
            OR count >= NEW.count OR first_position <> NEW.first_position OR fact_position >= NEW.fact_position)
    )
BEGIN
    SELECT RAISE(ABORT, 'a cut lies behind the one before it, and control facts are never cut');
END;

CREATE TRIGGER cuts_are_named_by_facts BEFORE INSERT ON cuts
WHEN NOT EXISTS (
        SELECT 1 FROM events
        WHERE position = NEW.fact_position AND type = 'tally.pruned' AND stream >= 'tally.' AND stream < 'tally/'
            AND instr(CAST(payload AS TEXT), '"stream":"' || NEW.stream || '"') > 0
            AND instr(CAST(payload AS TEXT), '"link":"' || lower(hex(NEW.link)) || '"') > 0
            AND instr(replace(CAST(payload AS TEXT), '}', ','), '"through":' || NEW.through || ',') > 0
    )
    OR NOT EXISTS (
        SELECT 1 FROM events
        WHERE stream = NEW.stream AND seq = NEW.through AND link = NEW.link AND position = NEW.last_position
    )
BEGIN
    SELECT RAISE(ABORT, 'a cut needs the control fact that names it, and the event it goes up to');
END;

CREATE TRIGGER cuts_are_not_changed BEFORE UPDATE ON cuts
BEGIN
    SELECT RAISE(ABORT, 'cuts are immutable');
END;

CREATE TRIGGER cuts_are_not_deleted BEFORE DELETE ON cuts
BEGIN
    SELECT RAISE(ABORT, 'cuts are immutable');
END;

-- Every event that was pruned, so that a retry of it is recognised for ever, and a missing position can be told from a
-- lost one. Written by the trigger that lets the event go.
CREATE TABLE pruned (
    position INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE CHECK (length(id) = 16)
) STRICT;

CREATE TRIGGER pruned_are_gone BEFORE INSERT ON pruned
WHEN EXISTS (SELECT 1 FROM pruned WHERE position = NEW.position OR id = NEW.id)
    OR EXISTS (SELECT 1 FROM events WHERE position = NEW.position)
    OR EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
    OR NEW.position > coalesce((SELECT max(last_position) FROM cuts), 0)
BEGIN
    SELECT RAISE(ABORT, 'only what was pruned is noted as pruned, once');
END;

CREATE TRIGGER pruned_are_not_changed BEFORE UPDATE ON pruned
BEGIN
    SELECT RAISE(ABORT, 'what was pruned is never forgotten');
END;

CREATE TRIGGER pruned_are_not_deleted BEFORE DELETE ON pruned
BEGIN
    SELECT RAISE(ABORT, 'what was pruned is never forgotten');
END;

DROP TRIGGER events_are_not_deleted;

CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM cuts WHERE stream = OLD.stream AND through >= OLD.seq)
BEGIN
    SELECT RAISE(ABORT, 'events are immutable');
END;

CREATE TRIGGER pruned_events_are_noted AFTER DELETE ON events
BEGIN
    INSERT INTO pruned (position, id) VALUES (OLD.position, OLD.id);
END;

CREATE TABLE erasures (
    position INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    checksum BLOB NOT NULL CHECK (length(checksum) = 32),
    fact_position INTEGER NOT NULL
) STRICT;

CREATE TRIGGER erasures_happen_once BEFORE INSERT ON erasures
WHEN NEW.stream >= 'tally.' AND NEW.stream < 'tally/'
    OR EXISTS (SELECT 1 FROM erasures WHERE position = NEW.position)
BEGIN
    SELECT RAISE(ABORT, 'an event is erased once, and control facts are never erased');
END;

CREATE TRIGGER erasures_are_named_by_facts BEFORE INSERT ON erasures
WHEN NOT EXISTS (
        SELECT 1 FROM events
        WHERE position = NEW.fact_position AND type = 'tally.erased' AND stream >= 'tally.' AND stream < 'tally/'
            AND instr(CAST(payload AS TEXT), '"stream":"' || NEW.stream || '"') > 0
            AND instr(CAST(payload AS TEXT), '"checksum":"' || lower(hex(NEW.checksum)) || '"') > 0
            AND instr(replace(CAST(payload AS TEXT), '}', ','), '"seq":' || NEW.seq || ',') > 0
    )
    OR NOT EXISTS (
        SELECT 1 FROM events
        WHERE position = NEW.position AND stream = NEW.stream AND seq = NEW.seq AND checksum = NEW.checksum
    )
BEGIN
    SELECT RAISE(ABORT, 'an erasure needs the control fact that names it, and the event it is about');
END;

CREATE TRIGGER erasures_are_not_changed BEFORE UPDATE ON erasures
BEGIN
    SELECT RAISE(ABORT, 'erasures are immutable');
END;

CREATE TRIGGER erasures_are_not_deleted BEFORE DELETE ON erasures
BEGIN
    SELECT RAISE(ABORT, 'erasures are immutable');
END;

DROP TRIGGER events_are_not_changed;

-- Column by column, not UPDATE OF: that list would not see a change of `rowid`, which is `position`.
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
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

-- Up to which erasure the file was rewritten since: nothing of those is left in a forgotten corner of a page.
CREATE TABLE sweeps (
    fact_position INTEGER PRIMARY KEY,
    swept_at INTEGER NOT NULL
) STRICT;

-- The table of 005 had no writer yet. A snapshot is known by the id of its control fact; what is said of it here is
-- also said there, and verified against it. `state_payload` is the state, or for kind `diff` the patch that leads to it.
DROP TABLE snapshots;

CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    snapshot_id BLOB NOT NULL UNIQUE CHECK (length(snapshot_id) = 16),
    run_id TEXT,
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    position INTEGER NOT NULL,
    last_event_id INTEGER NOT NULL,
    link BLOB NOT NULL CHECK (length(link) = 32),
    reducer TEXT NOT NULL,
    reducer_version INTEGER NOT NULL,
    upcasters BLOB NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('full', 'diff')),
    base BLOB CHECK ((base IS NULL) = (kind = 'full')),
    state_hash BLOB NOT NULL CHECK (length(state_hash) = 32),
    body_bytes INTEGER NOT NULL CHECK (body_bytes = length(state_payload)),
    created_at INTEGER NOT NULL,
    state_payload BLOB NOT NULL
) STRICT;

CREATE INDEX snapshots_by_run ON snapshots (run_id, seq) WHERE run_id IS NOT NULL;

CREATE TRIGGER snapshots_are_named_by_facts BEFORE INSERT ON snapshots
WHEN NOT EXISTS (SELECT 1 FROM events WHERE id = NEW.snapshot_id AND type = 'tally.snapshotted')
BEGIN
    SELECT RAISE(ABORT, 'a snapshot needs the control fact that tells of it');
END;

CREATE TRIGGER snapshots_are_not_replaced BEFORE INSERT ON snapshots
WHEN EXISTS (SELECT 1 FROM snapshots WHERE snapshot_id = NEW.snapshot_id)
    OR EXISTS (SELECT 1 FROM snapshots WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'snapshots are immutable: they are dropped, and others are made');
END;

CREATE TRIGGER snapshots_are_not_changed BEFORE UPDATE ON snapshots
BEGIN
    SELECT RAISE(ABORT, 'snapshots are immutable: they are dropped, and others are made');
END;

-- A key of its own that only rises: rows never move from page to page, so a forgotten response leaves no copy behind.
CREATE TABLE commands (
    number INTEGER PRIMARY KEY,
    org TEXT NOT NULL,
    actor TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    key TEXT NOT NULL,
    request_hash BLOB NOT NULL,
    recorded INTEGER NOT NULL,
    response BLOB NOT NULL,
    UNIQUE (org, actor, endpoint, key)
) STRICT;

CREATE INDEX commands_by_time ON commands (recorded);

-- What a command appended: the seqs from `first` to `last` of each stream.
CREATE TABLE command_ranges (
    command INTEGER NOT NULL,
    part INTEGER NOT NULL,
    stream TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL CHECK (last >= first),
    PRIMARY KEY (command, part)
) STRICT, WITHOUT ROWID;

CREATE INDEX command_ranges_by_stream ON command_ranges (stream, last);

CREATE TRIGGER commands_are_not_replaced BEFORE INSERT ON commands
WHEN EXISTS (
        SELECT 1 FROM commands
        WHERE org = NEW.org AND actor = NEW.actor AND endpoint = NEW.endpoint AND key = NEW.key
    )
    OR EXISTS (SELECT 1 FROM commands WHERE number = NEW.number)
BEGIN
    SELECT RAISE(ABORT, 'a command took effect once');
END;

CREATE TRIGGER commands_are_not_changed BEFORE UPDATE ON commands
BEGIN
    SELECT RAISE(ABORT, 'a command took effect once');
END;

CREATE TRIGGER forgotten_commands_take_their_ranges AFTER DELETE ON commands
BEGIN
    DELETE FROM command_ranges WHERE command = OLD.number;
END;
