-- Lock the tables of projections to read them: nobody drops one.
CREATE OR REPLACE FUNCTION tally.lock_tables_to_read() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    LOCK TABLE tally_locks.reading IN ROW EXCLUSIVE MODE
$$;

GRANT EXECUTE ON FUNCTION tally.lock_tables_to_read TO tally_app, tally_reader;
