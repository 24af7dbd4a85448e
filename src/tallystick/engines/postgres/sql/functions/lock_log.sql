-- Lock the whole log for the rest of the transaction: nobody else has drawn a position, or draws one.
CREATE OR REPLACE FUNCTION tally.lock_log() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOCK TABLE tally_locks.appending IN SHARE ROW EXCLUSIVE MODE;
END
$$;

GRANT EXECUTE ON FUNCTION tally.lock_log TO tally_app;
