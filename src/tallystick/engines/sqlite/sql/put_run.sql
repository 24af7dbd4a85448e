INSERT INTO runs (id, tenant_id, status, created_at, updated_at, fingerprint, fingerprint_seq, fingerprint_reducer,
    fingerprint_reducer_version, fingerprint_upcasters)
VALUES (:id, :tenant_id, :status, :created_at, :updated_at, :fingerprint, :fingerprint_seq, :fingerprint_reducer,
    :fingerprint_reducer_version, :fingerprint_upcasters)
ON CONFLICT (id) DO UPDATE SET tenant_id = excluded.tenant_id, status = excluded.status,
    created_at = excluded.created_at, updated_at = excluded.updated_at, fingerprint = excluded.fingerprint,
    fingerprint_seq = excluded.fingerprint_seq, fingerprint_reducer = excluded.fingerprint_reducer,
    fingerprint_reducer_version = excluded.fingerprint_reducer_version,
    fingerprint_upcasters = excluded.fingerprint_upcasters
