-- Who may do what. The service's role sees one org while its session names one in `tally.org`, and everything else
-- while it names none; the reader's role sees nothing while none is named. An empty setting is none: that is what is
-- left of a SET LOCAL after its transaction.

ALTER TABLE tally.events ENABLE ROW LEVEL SECURITY;
ALTER TABLE tally.events FORCE ROW LEVEL SECURITY;
ALTER TABLE tally.streams ENABLE ROW LEVEL SECURITY;
ALTER TABLE tally.streams FORCE ROW LEVEL SECURITY;

CREATE POLICY owner_sees_all ON tally.events TO tally_owner, tally_maintenance USING (true) WITH CHECK (true);
CREATE POLICY owner_sees_all ON tally.streams TO tally_owner, tally_maintenance USING (true) WITH CHECK (true);

CREATE POLICY service_sees_its_scope ON tally.events FOR SELECT TO tally_app USING (
    (SELECT nullif(current_setting('tally.org', true), '')) IS NULL
    OR org = (SELECT nullif(current_setting('tally.org', true), ''))
);
CREATE POLICY service_sees_its_scope ON tally.streams FOR SELECT TO tally_app USING (
    (SELECT nullif(current_setting('tally.org', true), '')) IS NULL
    OR org = (SELECT nullif(current_setting('tally.org', true), ''))
);

CREATE POLICY tenant_sees_its_org ON tally.events FOR SELECT TO tally_reader USING (
    org = (SELECT nullif(current_setting('tally.org', true), ''))
    AND stream NOT LIKE 'tally.%'
    AND split_part(stream, '/', 1) NOT IN (SELECT kind FROM tally.infrastructure)
);
CREATE POLICY tenant_sees_its_org ON tally.streams FOR SELECT TO tally_reader USING (
    org = (SELECT nullif(current_setting('tally.org', true), ''))
    AND stream NOT LIKE 'tally.%'
    AND split_part(stream, '/', 1) NOT IN (SELECT kind FROM tally.infrastructure)
);

-- The control plane's names for the same rows. Everything but `payload` is readable without parsing it.
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

CREATE FUNCTION tally.declare_infrastructure(kinds text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO tally.infrastructure (kind) SELECT unnest(kinds) ON CONFLICT DO NOTHING
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tally FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE tally_owner REVOKE ALL ON FUNCTIONS FROM PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA tally TO tally_app, tally_maintenance;
GRANT INSERT, UPDATE, DELETE ON tally.checkpoints TO tally_app;
GRANT SELECT ON tally.events, tally.streams, tally.store, tally.migrations, tally.infrastructure, tally.proven,
    tally.control_plane_events TO tally_reader;
GRANT EXECUTE ON FUNCTION tally.append_event, tally.begin_append, tally.events_with, tally.heads_of_sources,
    tally.leases_of, tally.write_events, tally.move_sources, tally.put_lease, tally.advance, tally.appenders,
    tally.declare_infrastructure TO tally_app;
GRANT EXECUTE ON FUNCTION tally.prove, tally.link TO tally_app, tally_reader;
GRANT DELETE, UPDATE (payload) ON tally.events TO tally_maintenance;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tally TO tally_maintenance;
