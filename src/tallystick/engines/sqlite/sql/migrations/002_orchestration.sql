-- What runs are made of and where it runs.

CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    tenant_id TEXT,
    name TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'idle',
    registered_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT;

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

CREATE TABLE job_attempts (
    job_id TEXT NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt > 0),
    node_id TEXT,
    status TEXT NOT NULL DEFAULT 'started',
    error TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    PRIMARY KEY (job_id, attempt)
) STRICT, WITHOUT ROWID;
