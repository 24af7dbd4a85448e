INSERT INTO sessions (id, tenant_id, run_id, actor_id, status, started_at, ended_at)
VALUES (%(id)s, %(tenant_id)s, %(run_id)s, %(actor_id)s, %(status)s, %(started_at)s, %(ended_at)s)
ON CONFLICT (id) DO UPDATE SET tenant_id = excluded.tenant_id, run_id = excluded.run_id, actor_id = excluded.actor_id,
    status = excluded.status, started_at = excluded.started_at, ended_at = excluded.ended_at
