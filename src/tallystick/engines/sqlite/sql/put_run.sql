INSERT INTO runs (id, tenant_id, status, created_at, updated_at)
VALUES (:id, :tenant_id, :status, :created_at, :updated_at)
ON CONFLICT (id) DO UPDATE SET tenant_id = excluded.tenant_id, status = excluded.status,
    created_at = excluded.created_at, updated_at = excluded.updated_at
