-- The latest leases of these runs, except those of another org than the session's.
CREATE OR REPLACE FUNCTION tally.leases_of(names text[])
RETURNS TABLE (stream text, number bigint, host text, pid bigint, started bigint, handle text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT stream, number, host, pid, started, handle
    FROM tally.leases
    WHERE stream = ANY (names)
        AND NOT EXISTS (
            SELECT FROM tally.streams AS head WHERE head.stream = leases.stream AND tally.is_foreign(head.org)
        )
$$;

GRANT EXECUTE ON FUNCTION tally.leases_of TO tally_app, tally_maintenance;
