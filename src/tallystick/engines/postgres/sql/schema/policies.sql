-- Who sees which rows. The service's role sees one org while its session names one in `tally.org`, and everything while
-- it names none; the reader's role then sees nothing. An empty setting counts as none: a SET LOCAL leaves it after its
-- transaction.

DO $$
DECLARE
    name text;
    scope text := $scope$(SELECT nullif(current_setting('tally.org', true), ''))$scope$;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'events', 'streams', 'cuts', 'pruned', 'erasures', 'snapshots', 'commands', 'command_ranges'
    ] LOOP
        EXECUTE format('ALTER TABLE tally.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE tally.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY owner_sees_all ON tally.%I TO tally_owner, tally_maintenance USING (true) WITH CHECK (true)',
            name
        );
        EXECUTE format(
            'CREATE POLICY service_sees_its_scope ON tally.%I FOR SELECT TO tally_app USING (%s IS NULL OR org = %s)',
            name, scope, scope
        );
        -- A tenant does not append, so it need not know which ids were pruned.
        IF name <> 'pruned' THEN
            EXECUTE format(
                'CREATE POLICY tenant_sees_its_org ON tally.%I FOR SELECT TO tally_reader USING (org = %s %s)',
                name, scope, CASE WHEN name NOT IN ('commands', 'command_ranges') THEN $visible$
                    AND stream NOT LIKE 'tally.%'
                    AND split_part(stream, '/', 1) NOT IN (SELECT kind FROM tally.infrastructure)
                $visible$ END
            );
        END IF;
    END LOOP;

    -- A posting names no stream: a tenant sees those of the events that it sees.
    ALTER TABLE tally.event_tags ENABLE ROW LEVEL SECURITY;
    ALTER TABLE tally.event_tags FORCE ROW LEVEL SECURITY;
    CREATE POLICY owner_sees_all ON tally.event_tags TO tally_owner, tally_maintenance USING (true) WITH CHECK (true);
    EXECUTE format(
        'CREATE POLICY service_sees_its_scope ON tally.event_tags FOR SELECT TO tally_app USING (%s IS NULL OR org = %s)',
        scope, scope
    );
    EXECUTE format(
        'CREATE POLICY tenant_sees_its_org ON tally.event_tags FOR SELECT TO tally_reader USING (org = %s AND %s)',
        scope, 'EXISTS (SELECT FROM tally.events WHERE events.position = event_tags.position)'
    );

    -- Rows belong to the service, whatever org it acts for: an erasure has to reach all of them. Nobody knows which org
    -- a row belongs to, so the reader's role sees them only while its session names no org.
    FOREACH name IN ARRAY ARRAY['views', 'view_rows', 'batch_rows', 'dead_letters', 'kept_counts'] LOOP
        EXECUTE format('ALTER TABLE tally.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY service_keeps_all ON tally.%I TO tally_app USING (true) WITH CHECK (true)', name);
        IF name <> 'batch_rows' THEN
            EXECUTE format(
                'CREATE POLICY reader_is_no_tenant ON tally.%I FOR SELECT TO tally_reader USING (%s IS NULL)',
                name, scope
            );
        END IF;
    END LOOP;
END
$$;
