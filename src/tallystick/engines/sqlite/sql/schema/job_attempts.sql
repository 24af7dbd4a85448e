-- One row per attempt at a job, with the node that made it.
CREATE TABLE IF NOT EXISTS job_attempts (
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
