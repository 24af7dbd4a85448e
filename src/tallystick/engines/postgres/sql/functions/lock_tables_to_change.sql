-- Lock the tables of projections to change them: one session at a time.
CREATE OR REPLACE FUNCTION tally.lock_tables_to_change() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    LOCK TABLE tally_locks.changing IN SHARE ROW EXCLUSIVE MODE
$$;

GRANT EXECUTE ON FUNCTION tally.lock_tables_to_change TO tally_app;
