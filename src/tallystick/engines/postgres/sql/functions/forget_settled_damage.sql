-- Delete the findings that are being settled.
CREATE OR REPLACE FUNCTION tally.forget_settled_damage() RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM tally.damage WHERE settling
$$;

GRANT EXECUTE ON FUNCTION tally.forget_settled_damage TO tally_maintenance;
