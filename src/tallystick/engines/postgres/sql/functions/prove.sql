-- How far the log is final. Positions are drawn before their transactions commit, so a higher one can be visible while
-- a lower one is still to come. The evidence, without time-outs: every append holds `tally_locks.appending` from
-- before it draws a position until it has ended.
--   1. Let L be the last visible position. It was drawn, and everything below it was drawn before it.
--   2. Then let H be the transactions that hold the lock.
--   3. Once all of H have ended, nothing at or below L can still appear.
-- Two short cuts: if H is empty, L is final at once, and positions without a gap are final. The positions of a commit
-- are contiguous, so L is always the end of a commit. Locks are released after a commit has become visible, and each
-- statement below sees what committed before it.
--
-- Continues a proof: `head` is what is proven already; `pending` and `holders` are a proof in progress, or NULL. A
-- proof is valid for one start of the server: after a restart, prepared transactions have other ids, and numbers are
-- given out again. `holders` therefore begins with the moment of the start.
CREATE OR REPLACE FUNCTION tally.prove(INOUT head bigint, INOUT pending bigint, INOUT holders text[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    server text := 'since ' || extract(epoch FROM pg_postmaster_start_time());
    last bigint;
    run bigint;
    present text[];
BEGIN
    SELECT greatest(head, published.position) INTO head FROM tally.proven AS published;
    -- A transaction with one snapshot does not see what ended since, and a standby does not have the locks.
    IF current_setting('transaction_isolation') <> 'read committed' OR pg_is_in_recovery() THEN
        RETURN;
    END IF;
    IF holders[1] IS DISTINCT FROM server THEN
        pending := NULL;
    END IF;
    IF pending IS NOT NULL AND NOT tally.appending() && holders THEN
        head := greatest(head, pending);
        pending := NULL;
    END IF;
    SELECT max(stored.position) INTO last FROM tally.events AS stored;
    IF last IS NULL OR last <= head THEN
        RETURN;
    END IF;
    present := tally.appending();
    IF present = '{}' THEN
        head := last;
        pending := NULL;
        RETURN;
    END IF;
    SELECT max(position) INTO run
    FROM (
        SELECT position, row_number() OVER (ORDER BY position) AS n
        FROM (
            SELECT position FROM tally.events WHERE position > head ORDER BY position LIMIT 10000
        ) AS next
    ) AS numbered
    WHERE position = head + n;
    head := greatest(head, run);
    IF last <= head THEN
        pending := NULL;
    ELSIF pending IS NULL OR pending <= head THEN
        pending := last;
        holders := server || present;
    END IF;
END
$$;

GRANT EXECUTE ON FUNCTION tally.prove TO tally_app, tally_reader, tally_maintenance;
