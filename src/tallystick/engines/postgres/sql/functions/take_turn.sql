-- Wait for an advisory lock, after the lock of `tally_locks.appending`. If a login without a role of the store holds
-- it, take the whole log instead. Two sessions that do so may wait for each other: then one is rolled back and tries
-- again.
CREATE OR REPLACE FUNCTION tally.take_turn(of_class integer, of_key integer, shared boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (CASE WHEN shared THEN pg_try_advisory_xact_lock_shared(of_class, of_key)
            ELSE pg_try_advisory_xact_lock(of_class, of_key) END) THEN
        RETURN;
    END IF;
    IF EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND classid = of_class::oid AND objid = (of_key::bigint & 4294967295)::oid
            AND objsubid = 2 AND granted AND NOT tally.is_appender(pid, virtualtransaction)
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) THEN
        LOCK TABLE tally_locks.appending IN SHARE ROW EXCLUSIVE MODE;
    ELSIF shared THEN
        PERFORM pg_advisory_xact_lock_shared(of_class, of_key);
    ELSE
        PERFORM pg_advisory_xact_lock(of_class, of_key);
    END IF;
END
$$;
