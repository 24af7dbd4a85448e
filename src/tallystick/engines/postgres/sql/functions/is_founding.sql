-- Whether a cut is the beginning of its stream in a store that takes over another one. Nothing is stored yet then, and
-- the control fact that names the cut comes with the rest of the transfer. check_cuts.sql looks whether it came.
CREATE OR REPLACE FUNCTION tally.is_founding(fact_position bigint, last_position bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT fact_position > last_position AND NOT EXISTS (SELECT FROM tally.events)
        AND NOT EXISTS (SELECT FROM tally.streams)
$$;
