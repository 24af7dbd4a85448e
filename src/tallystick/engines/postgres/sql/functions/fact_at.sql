-- The control fact at a position, if this very transaction appended it outside of a savepoint.
CREATE OR REPLACE FUNCTION tally.fact_at(at bigint, of_type text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT payload::jsonb
    FROM tally.events
    WHERE position = at AND type = of_type AND stream LIKE 'tally.%' AND xmin = pg_current_xact_id()::xid
$$;
