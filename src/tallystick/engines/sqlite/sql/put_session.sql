INSERT INTO sessions (id, tenant_id, run_id, actor_id, status, started_at, ended_at)
VALUES (:id, :tenant_id, :run_id, :actor_id, :status, :started_at, :ended_at)
ON CONFLICT (id) DO UPDATE SET tenant_id = excluded.tenant_id, run_id = excluded.run_id, actor_id = excluded.actor_id,
    status = excluded.status, started_at = excluded.started_at, ended_at = excluded.ended_at
