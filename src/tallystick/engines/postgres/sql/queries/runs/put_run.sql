INSERT INTO runs (id, tenant_id, status, created_at, updated_at, fingerprint, fingerprint_seq, fingerprint_reducer,
    fingerprint_reducer_version, fingerprint_upcasters)
VALUES (%(id)s, %(tenant_id)s, %(status)s, %(created_at)s, %(updated_at)s, %(fingerprint)s, %(fingerprint_seq)s,
    %(fingerprint_reducer)s, %(fingerprint_reducer_version)s, %(fingerprint_upcasters)s)
ON CONFLICT (id) DO UPDATE SET tenant_id = excluded.tenant_id, status = excluded.status,
    created_at = excluded.created_at, updated_at = excluded.updated_at, fingerprint = excluded.fingerprint,
    fingerprint_seq = excluded.fingerprint_seq, fingerprint_reducer = excluded.fingerprint_reducer,
    fingerprint_reducer_version = excluded.fingerprint_reducer_version,
    fingerprint_upcasters = excluded.fingerprint_upcasters
