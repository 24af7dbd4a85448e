-- Lock the tables of projections to drop one: no session reads any.
CREATE OR REPLACE FUNCTION tally.lock_tables_to_drop() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    LOCK TABLE tally_locks.reading IN SHARE ROW EXCLUSIVE MODE
$$;

GRANT EXECUTE ON FUNCTION tally.lock_tables_to_drop TO tally_app;
