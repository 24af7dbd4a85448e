-- The damage on record. A session with an org sees none.
CREATE OR REPLACE FUNCTION tally.known_damage(kept_max integer)
RETURNS TABLE (what text, reason text, "position" bigint, stream text, seq bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT what, reason, position, stream, seq FROM tally.damage
    WHERE nullif(current_setting('tally.org', true), '') IS NULL
    ORDER BY number LIMIT kept_max
$$;

GRANT EXECUTE ON FUNCTION tally.known_damage TO tally_app, tally_maintenance;
