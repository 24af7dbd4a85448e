-- One row per session of a run, filled from the events of runs.
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY,
    tenant_id TEXT,
    run_id TEXT,
    actor_id TEXT,
    status TEXT NOT NULL DEFAULT 'open',
    started_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
