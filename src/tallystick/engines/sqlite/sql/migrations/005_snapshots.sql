-- Compacted state at an event. The latest snapshot is the one with the highest seq, never the newest by the clock.

CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT,
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    last_event_id INTEGER NOT NULL,
    link BLOB NOT NULL,
    reducer TEXT NOT NULL,
    reducer_version INTEGER NOT NULL,
    state_payload BLOB NOT NULL,
    state_hash BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (stream, reducer, reducer_version, seq)
) STRICT;

CREATE INDEX snapshots_by_run ON snapshots (run_id, seq) WHERE run_id IS NOT NULL;
