-- How far the log is final. Positions are drawn before their transactions commit, so a higher one can be visible
-- while a lower one is still to come. Evidence, and no time-outs:
--   every append holds lock (1952541804, 1) from before it draws a position until it has ended. Let L be a position
--   that is visible (so it was drawn, and everything below it was drawn before), and then H the transactions that hold
--   the lock. Once all of H have ended, nothing at or below L can still appear.
-- Two short cuts: if H is empty, L is final at once; and positions that follow each other without a gap are final.
-- L is the last visible position, and a commit's positions stand together, so L is always the end of a commit.
-- Locks are released after a commit has become visible, and each statement below sees what committed before it.

CREATE FUNCTION tally.appending() RETURNS text[]
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(virtualtransaction), '{}')
    FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 1952541804 AND objid = 1 AND objsubid = 2 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
$$;

-- Go on with a proof. `head` is what is proven already; `pending` and `holders` are a proof under way, or NULL.
CREATE FUNCTION tally.prove(INOUT head bigint, INOUT pending bigint, INOUT holders text[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last bigint;
    run bigint;
    present text[];
BEGIN
    SELECT greatest(head, published.position) INTO head FROM tally.proven AS published;
    -- With one snapshot for everything, what ended since is not seen; and locks are not replayed on a standby.
    IF current_setting('transaction_isolation') <> 'read committed' OR pg_is_in_recovery() THEN
        RETURN;
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
        holders := present;
    END IF;
END
$$;

-- Go on with the proof that is kept in the table, and publish what is proven. The row is not worth an fsync of its
-- own; but a transaction that has already written something keeps its own setting.
CREATE FUNCTION tally.advance() RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known tally.proven;
    found record;
    fresh boolean := pg_current_xact_id_if_assigned() IS NULL;
BEGIN
    SELECT * INTO known FROM tally.proven FOR UPDATE SKIP LOCKED;
    IF known.one IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT * INTO found FROM tally.prove(known.position, known.pending, known.holders);
    IF fresh THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF (found.head, found.pending) IS DISTINCT FROM (known.position, known.pending) THEN
        UPDATE tally.proven SET position = found.head, pending = found.pending, holders = found.holders;
    END IF;
    RETURN found.head;
END
$$;

-- Who is appending, and since when: what `tally doctor` shows.
CREATE FUNCTION tally.appenders()
RETURNS TABLE (pid integer, application text, state text, seconds double precision)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT locks.pid, activity.application_name, activity.state,
        extract(epoch FROM clock_timestamp() - activity.xact_start)::double precision
    FROM pg_locks AS locks LEFT JOIN pg_stat_activity AS activity ON activity.pid = locks.pid
    WHERE locks.locktype = 'advisory' AND locks.classid = 1952541804 AND locks.objid = 1 AND locks.objsubid = 2
        AND locks.granted AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ORDER BY 4 DESC NULLS LAST
$$;
