-- Declare kinds of streams that no tenant can see.
CREATE OR REPLACE FUNCTION tally.declare_infrastructure(kinds text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO tally.infrastructure (kind) SELECT unnest(kinds) ON CONFLICT DO NOTHING
$$;

GRANT EXECUTE ON FUNCTION tally.declare_infrastructure TO tally_control, tally_maintenance;
