-- The events under the control plane's names. Everything except `payload` can be read without parsing it.

CREATE VIEW tally.control_plane_events WITH (security_invoker = true) AS
SELECT position AS event_id,
    timestamptz 'epoch' + (time / 1000) * interval '1 microsecond' AS occurred_at,
    split_part(stream, '/', 1) AS aggregate_type,
    split_part(stream, '/', 2) AS aggregate_id,
    seq AS aggregate_seq,
    type AS event_type,
    version AS event_version,
    meta::jsonb ->> 'actor_type' AS actor_type,
    meta::jsonb ->> 'actor_id' AS actor_id,
    org AS org_id,
    app AS app_id,
    env AS env_id,
    meta::jsonb ->> 'request_id' AS request_id,
    meta::jsonb ->> 'idempotency_key' AS idempotency_key,
    meta::jsonb ->> 'correlation_id' AS correlation_id,
    meta::jsonb ->> 'causation_id' AS causation_id,
    payload::jsonb AS payload
FROM tally.events;

GRANT SELECT ON tally.control_plane_events TO tally_app, tally_maintenance, tally_reader;
