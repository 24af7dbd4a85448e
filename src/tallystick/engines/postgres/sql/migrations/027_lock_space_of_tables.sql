-- Locks of tables that projections own, which no login without our roles can take: advisory ones are everybody's.
--   tally_locks.changing  SHARE ROW EXCLUSIVE by whoever changes such tables: one session at a time
--   tally_locks.reading   ROW EXCLUSIVE by whoever reads them; SHARE ROW EXCLUSIVE by whoever drops one

CREATE TABLE tally_locks.changing ();
CREATE TABLE tally_locks.reading ();

CREATE FUNCTION tally.lock_tables_to_change() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    LOCK TABLE tally_locks.changing IN SHARE ROW EXCLUSIVE MODE
$$;

CREATE FUNCTION tally.lock_tables_to_read() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    LOCK TABLE tally_locks.reading IN ROW EXCLUSIVE MODE
$$;

CREATE FUNCTION tally.lock_tables_to_drop() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    LOCK TABLE tally_locks.reading IN SHARE ROW EXCLUSIVE MODE
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tally FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tally.lock_tables_to_change, tally.lock_tables_to_drop TO tally_app;
GRANT EXECUTE ON FUNCTION tally.lock_tables_to_read TO tally_app, tally_reader;
