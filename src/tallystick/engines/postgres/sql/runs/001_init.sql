-- Runs and their sessions.
CREATE TABLE run_steps (number integer PRIMARY KEY, name text NOT NULL);

CREATE TABLE runs (
    id text PRIMARY KEY,
    tenant_id text,
    status text NOT NULL DEFAULT 'created',
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE sessions (
    id text PRIMARY KEY,
    tenant_id text,
    run_id text,
    actor_id text,
    status text NOT NULL DEFAULT 'open',
    started_at bigint NOT NULL,
    ended_at bigint
);
