-- A snapshot is known by the id of its control fact. What a row says is also in the fact, and verified against it.
-- `state_payload` is the state, or for kind `diff` the patch that leads to it.
CREATE TABLE IF NOT EXISTS snapshots (
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

CREATE INDEX IF NOT EXISTS snapshots_by_run ON snapshots (run_id, seq) WHERE run_id IS NOT NULL;

CREATE TRIGGER IF NOT EXISTS snapshots_are_named_by_facts BEFORE INSERT ON snapshots
WHEN NOT EXISTS (SELECT 1 FROM events WHERE id = NEW.snapshot_id AND type = 'tally.snapshotted')
BEGIN
    SELECT RAISE(ABORT, 'a snapshot needs the control fact that names it');
END;

CREATE TRIGGER IF NOT EXISTS snapshots_are_not_replaced BEFORE INSERT ON snapshots
WHEN EXISTS (SELECT 1 FROM snapshots WHERE snapshot_id = NEW.snapshot_id)
    OR EXISTS (SELECT 1 FROM snapshots WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'snapshots are immutable: they are dropped, and others are made');
END;

CREATE TRIGGER IF NOT EXISTS snapshots_are_not_changed BEFORE UPDATE ON snapshots
BEGIN
    SELECT RAISE(ABORT, 'snapshots are immutable: they are dropped, and others are made');
END;
