INSERT INTO jobs (id, tenant_id, run_id, type, status, payload, created_at, updated_at)
VALUES (%(id)s, %(tenant_id)s, %(run_id)s, %(type)s, %(status)s, %(payload)s, %(created_at)s, %(updated_at)s)
ON CONFLICT (id) DO UPDATE SET tenant_id = excluded.tenant_id, run_id = excluded.run_id, type = excluded.type,
    status = excluded.status, payload = excluded.payload, created_at = excluded.created_at,
    updated_at = excluded.updated_at
