-- Those of the ids that pruned events had, for retries, whatever their org.
CREATE OR REPLACE FUNCTION tally.pruned_with(ids uuid[]) RETURNS TABLE (id bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT uuid_send(gone.id) FROM tally.pruned AS gone WHERE gone.id = ANY (ids) AND EXISTS (SELECT FROM tally.pruned)
$$;

GRANT EXECUTE ON FUNCTION tally.pruned_with TO tally_app, tally_maintenance;
