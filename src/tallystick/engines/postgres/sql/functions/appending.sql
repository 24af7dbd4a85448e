-- The transactions that hold the lock of appends, of logins with a role of the store.
CREATE OR REPLACE FUNCTION tally.appending() RETURNS text[]
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(virtualtransaction), '{}')
    FROM pg_locks
    WHERE locktype = 'relation' AND relation = 'tally_locks.appending'::regclass AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND tally.is_appender(pid, virtualtransaction)
$$;
