-- One row per run, filled from its events. The fingerprint is the newest seal of the run, with the code that computed
-- it: other code means "not comparable", not "damaged". Times are ns since the epoch and never order anything.
CREATE TABLE IF NOT EXISTS runs (
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
