-- Workers, nodes of workflows, and each attempt at one.
CREATE TABLE nodes (
    id text PRIMARY KEY,
    tenant_id text,
    name text NOT NULL,
    status text NOT NULL DEFAULT 'idle',
    registered_at bigint NOT NULL,
    seen_at bigint NOT NULL
);

CREATE TABLE jobs (
    id text PRIMARY KEY,
    tenant_id text,
    run_id text NOT NULL,
    type text NOT NULL,
    status text NOT NULL DEFAULT 'queued',
    payload bytea,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE INDEX jobs_by_run ON jobs (run_id);

CREATE TABLE job_attempts (
    job_id text NOT NULL,
    attempt bigint NOT NULL CHECK (attempt > 0),
    node_id text,
    status text NOT NULL DEFAULT 'started',
    error text,
    started_at bigint NOT NULL,
    ended_at bigint,
    PRIMARY KEY (job_id, attempt)
);
