-- The events of runs, with their payload as text.
CREATE VIEW IF NOT EXISTS run_events AS
SELECT position AS id, substr(stream, 5) AS run_id, seq, type, version, CAST(payload AS TEXT) AS payload,
    org AS tenant_id, recorded AS created_at
FROM events
WHERE stream >= 'run/' AND stream < 'run0';
