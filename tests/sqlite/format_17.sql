-- The schema of a store of format 17, as the version of that time made it.

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

CREATE TABLE command_ranges (
    command INTEGER NOT NULL,
    part INTEGER NOT NULL,
    stream TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL CHECK (last >= first),
    first_position INTEGER,
    last_position INTEGER,
    link BLOB,
    PRIMARY KEY (command, part)
) STRICT, WITHOUT ROWID;

CREATE INDEX command_ranges_by_stream ON command_ranges (stream, last);

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
    SELECT RAISE(ABORT, 'a cut goes further than the one before it, and control facts are never cut');
END;

CREATE TRIGGER cuts_are_not_changed BEFORE UPDATE ON cuts
BEGIN
    SELECT RAISE(ABORT, 'cuts are immutable');
END;

CREATE TRIGGER cuts_are_not_deleted BEFORE DELETE ON cuts
BEGIN
    SELECT RAISE(ABORT, 'cuts are immutable');
END;

CREATE TRIGGER cuts_are_named_by_facts BEFORE INSERT ON cuts
WHEN (
        NOT EXISTS (
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
    )
    AND (
        EXISTS (SELECT 1 FROM events)
        OR EXISTS (SELECT 1 FROM streams)
        OR NEW.fact_position <= NEW.last_position
    )
BEGIN
    SELECT RAISE(ABORT, 'a cut needs the control fact that names it, and the event it goes up to');
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

CREATE TRIGGER erasures_are_not_changed BEFORE UPDATE ON erasures
BEGIN
    SELECT RAISE(ABORT, 'erasures are immutable');
END;

CREATE TRIGGER erasures_are_not_deleted BEFORE DELETE ON erasures
BEGIN
    SELECT RAISE(ABORT, 'erasures are immutable');
END;

CREATE TRIGGER erasures_are_named_by_facts BEFORE INSERT ON erasures
WHEN NOT (
        EXISTS (
            SELECT 1 FROM events
            WHERE position = NEW.fact_position AND type = 'tally.erased' AND stream >= 'tally.' AND stream < 'tally/'
                AND instr(CAST(payload AS TEXT), '"stream":"' || NEW.stream || '"') > 0
                AND instr(CAST(payload AS TEXT), '"checksum":"' || lower(hex(NEW.checksum)) || '"') > 0
                AND instr(replace(CAST(payload AS TEXT), '}', ','), '"seq":' || NEW.seq || ',') > 0
        )
        OR (
            EXISTS (SELECT 1 FROM events WHERE position = NEW.position AND payload IS NULL)
            AND NEW.fact_position > (SELECT max(position) FROM events)
        )
    )
    OR NOT EXISTS (
        SELECT 1 FROM events
        WHERE position = NEW.position AND stream = NEW.stream AND seq = NEW.seq AND checksum = NEW.checksum
    )
BEGIN
    SELECT RAISE(ABORT, 'an erasure needs the control fact that names it, and the event it is about');
END;

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

CREATE INDEX events_by_type ON events (type);

CREATE INDEX events_by_org ON events (org) WHERE org IS NOT NULL;

CREATE TRIGGER events_are_not_replaced BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE position = NEW.position)
    OR EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
    OR EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND seq = NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'events are immutable: the position, the id or the seq exists already');
END;

CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM cuts WHERE stream = OLD.stream AND through >= OLD.seq)
BEGIN
    SELECT RAISE(ABORT, 'events are immutable');
END;

CREATE TRIGGER pruned_events_are_noted AFTER DELETE ON events
BEGIN
    INSERT INTO pruned (position, id) VALUES (OLD.position, OLD.id);
END;

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

CREATE TABLE job_attempts (
    job_id TEXT NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt > 0),
    node_id TEXT,
    status TEXT NOT NULL DEFAULT 'started',
    error TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    attestation_hash BLOB,
    PRIMARY KEY (job_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    tenant_id TEXT,
    run_id TEXT NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'queued',
    payload BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX jobs_by_run ON jobs (run_id);

CREATE TABLE leases (
    stream TEXT PRIMARY KEY,
    number INTEGER NOT NULL CHECK (number > 0),
    host TEXT,
    pid INTEGER,
    started INTEGER,
    handle TEXT
) STRICT, WITHOUT ROWID;

CREATE TRIGGER leases_only_grow BEFORE UPDATE ON leases
WHEN NEW.stream <> OLD.stream OR NEW.number < OLD.number
BEGIN
    SELECT RAISE(ABORT, 'the number of a lease only grows');
END;

CREATE TRIGGER leases_are_not_replaced BEFORE INSERT ON leases
WHEN EXISTS (SELECT 1 FROM leases WHERE stream = NEW.stream AND number > NEW.number)
BEGIN
    SELECT RAISE(ABORT, 'the number of a lease only grows');
END;

CREATE TRIGGER leases_are_not_deleted BEFORE DELETE ON leases
BEGIN
    SELECT RAISE(ABORT, 'a lease is never forgotten');
END;

CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    tenant_id TEXT,
    name TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'idle',
    registered_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    hardware TEXT,
    attestation BLOB,
    attestation_type TEXT,
    attested_at INTEGER
) STRICT;

CREATE TABLE org_sources (
    org TEXT NOT NULL,
    source TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (org, source)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER org_sources_only_grow BEFORE UPDATE ON org_sources
WHEN NEW.org <> OLD.org OR NEW.source <> OLD.source OR NEW.seq <= OLD.seq
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER org_sources_are_not_replaced BEFORE INSERT ON org_sources
WHEN EXISTS (SELECT 1 FROM org_sources WHERE org = NEW.org AND source = NEW.source AND seq >= NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER org_sources_are_not_deleted BEFORE DELETE ON org_sources
BEGIN
    SELECT RAISE(ABORT, 'a source is never forgotten');
END;

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
    SELECT RAISE(ABORT, 'only an event that was pruned is recorded as pruned, and only once');
END;

CREATE TRIGGER pruned_are_not_changed BEFORE UPDATE ON pruned
BEGIN
    SELECT RAISE(ABORT, 'what was pruned is never forgotten');
END;

CREATE TRIGGER pruned_are_not_deleted BEFORE DELETE ON pruned
BEGIN
    SELECT RAISE(ABORT, 'what was pruned is never forgotten');
END;

CREATE VIEW run_events AS
SELECT position AS id, substr(stream, 5) AS run_id, seq, type, version, CAST(payload AS TEXT) AS payload,
    org AS tenant_id, recorded AS created_at
FROM events
WHERE stream >= 'run/' AND stream < 'run0';

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    tenant_id TEXT,
    status TEXT NOT NULL DEFAULT 'created',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    fingerprint BLOB,
    fingerprint_seq INTEGER,
    fingerprint_reducer TEXT,
    fingerprint_reducer_version INTEGER,
    fingerprint_upcasters BLOB
) STRICT;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    tenant_id TEXT,
    run_id TEXT,
    actor_id TEXT,
    status TEXT NOT NULL DEFAULT 'open',
    started_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;

CREATE TABLE skipped (
    first INTEGER PRIMARY KEY CHECK (first > 0),
    last INTEGER NOT NULL CHECK (last >= first)
) STRICT;

CREATE TRIGGER skipped_are_after_the_end BEFORE INSERT ON skipped
WHEN NEW.first <= coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)
    OR EXISTS (SELECT 1 FROM skipped WHERE last >= NEW.first)
BEGIN
    SELECT RAISE(ABORT, 'only positions after the end of the log can be skipped');
END;

CREATE TRIGGER skipped_are_not_changed BEFORE UPDATE ON skipped
BEGIN
    SELECT RAISE(ABORT, 'a skipped position stays skipped');
END;

CREATE TRIGGER skipped_are_not_deleted BEFORE DELETE ON skipped
BEGIN
    SELECT RAISE(ABORT, 'a skipped position stays skipped');
END;

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
    SELECT RAISE(ABORT, 'a snapshot needs the control fact that names it');
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

CREATE TABLE sources (
    source TEXT PRIMARY KEY,
    seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER sources_only_grow BEFORE UPDATE ON sources
WHEN NEW.source <> OLD.source OR NEW.seq <= OLD.seq
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER sources_are_not_replaced BEFORE INSERT ON sources
WHEN EXISTS (SELECT 1 FROM sources WHERE source = NEW.source AND seq >= NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER sources_are_not_deleted BEFORE DELETE ON sources
BEGIN
    SELECT RAISE(ABORT, 'a source is never forgotten');
END;

CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store_id BLOB NOT NULL CHECK (length(store_id) = 16),
    profile TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER store_is_not_changed BEFORE UPDATE ON store
BEGIN
    SELECT RAISE(ABORT, 'the identity of a store is immutable');
END;

CREATE TRIGGER store_is_not_replaced BEFORE INSERT ON store
WHEN EXISTS (SELECT 1 FROM store)
BEGIN
    SELECT RAISE(ABORT, 'the identity of a store is immutable');
END;

CREATE TRIGGER store_is_not_deleted BEFORE DELETE ON store
BEGIN
    SELECT RAISE(ABORT, 'the identity of a store is immutable');
END;

CREATE TABLE streams (
    stream TEXT PRIMARY KEY,
    seq INTEGER NOT NULL CHECK (seq > 0),
    link BLOB NOT NULL CHECK (length(link) = 32),
    org TEXT
) STRICT, WITHOUT ROWID;

CREATE TRIGGER streams_only_grow BEFORE UPDATE ON streams
WHEN NEW.stream <> OLD.stream OR NEW.seq <= OLD.seq OR (OLD.org IS NOT NULL AND NEW.org IS NOT OLD.org)
BEGIN
    SELECT RAISE(ABORT, 'a stream only grows, and keeps its org');
END;

CREATE TRIGGER streams_are_not_replaced BEFORE INSERT ON streams
WHEN EXISTS (SELECT 1 FROM streams WHERE stream = NEW.stream AND seq >= NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'a stream only grows, and keeps its org');
END;

CREATE TRIGGER streams_are_not_deleted BEFORE DELETE ON streams
BEGIN
    SELECT RAISE(ABORT, 'a stream is never forgotten');
END;

CREATE TABLE sweeps (
    fact_position INTEGER PRIMARY KEY,
    swept_at INTEGER NOT NULL
) STRICT;

CREATE TABLE writers (
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    handle TEXT PRIMARY KEY,
    opened_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
    name TEXT PRIMARY KEY,
    store_id BLOB NOT NULL,
    position INTEGER NOT NULL,
    link_position INTEGER NOT NULL,
    link BLOB NOT NULL,
    checksum BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE views (
    projection TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    live INTEGER NOT NULL,
    definition BLOB NOT NULL,
    store_id BLOB NOT NULL,
    position INTEGER NOT NULL,
    link_position INTEGER NOT NULL,
    link BLOB NOT NULL,
    drops INTEGER NOT NULL,
    checksum BLOB,
    row_count INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (projection, epoch)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX views_live ON views (projection) WHERE live = 1;

CREATE TABLE view_rows (
    projection TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    key TEXT NOT NULL,
    state BLOB,
    mark BLOB NOT NULL,
    checksum BLOB,
    PRIMARY KEY (projection, epoch, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX view_rows_dropped ON view_rows (projection, epoch) WHERE state IS NULL;

CREATE TABLE batch_rows (
    projection TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    batch BLOB NOT NULL,
    key TEXT NOT NULL,
    state BLOB,
    mark BLOB NOT NULL,
    checksum BLOB,
    PRIMARY KEY (projection, epoch, batch, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letters (
    consumer TEXT NOT NULL,
    position INTEGER NOT NULL,
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    parked INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (position, consumer)
) STRICT, WITHOUT ROWID;

CREATE TABLE kept_counts (
    what TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
