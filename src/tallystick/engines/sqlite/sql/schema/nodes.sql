-- The nodes that execute runs: on what hardware each one runs, and who vouches for it.
CREATE TABLE IF NOT EXISTS nodes (
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
