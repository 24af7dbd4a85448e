INSERT INTO job_attempts (job_id, attempt, node_id, status, error, started_at, ended_at, attestation_hash)
VALUES (%(job_id)s, %(attempt)s, %(node_id)s, %(status)s, %(error)s, %(started_at)s, %(ended_at)s, %(attestation_hash)s)
ON CONFLICT (job_id, attempt) DO UPDATE SET node_id = excluded.node_id, status = excluded.status,
    error = excluded.error, started_at = excluded.started_at, ended_at = excluded.ended_at,
    attestation_hash = excluded.attestation_hash
