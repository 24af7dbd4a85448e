-- Locks that no login without our roles can take. Advisory locks are everybody's: whoever may connect could hold the one
-- that readers look at, and so freeze the head, or the ones that appends take, and so stop them.
--   tally_locks.appending, ROW EXCLUSIVE  by every append, taken first: the evidence of 005_safe_head.sql. A commit over
--                                         very many streams, or with inline projections, takes it alone
--                                         (SHARE ROW EXCLUSIVE).
--   tally_locks.drawing                   for the moment of drawing positions: ROW EXCLUSIVE by whoever draws one,
--                                         EXCLUSIVE by whoever draws several
-- Streams and sources stay advisory, because there are so many. Where somebody else holds one, the append takes the
-- whole log alone instead, and does not wait for them.

RESET ROLE;
CREATE SCHEMA tally_locks AUTHORIZATION tally_owner;
SET LOCAL ROLE tally_owner;

CREATE TABLE tally_locks.appending ();
CREATE TABLE tally_locks.drawing ();

-- Whether a process, or a prepared transaction, is of a login that may append. What nobody can tell counts as one.
CREATE FUNCTION tally.is_appender(of_pid integer, of_transaction text) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(pg_has_role(login, 'tally_app', 'MEMBER') OR pg_has_role(login, 'tally_owner', 'MEMBER'), true)
    FROM (SELECT CASE
        WHEN of_pid IS NOT NULL THEN (SELECT usesysid FROM pg_stat_get_activity(of_pid))
        ELSE (
            SELECT prepared.ownerid
            FROM pg_prepared_xact() AS prepared JOIN pg_locks AS own ON own.transactionid = prepared.transaction
            WHERE own.virtualtransaction = of_transaction AND own.pid IS NULL
            LIMIT 1
        )
    END AS login) AS known
$$;

CREATE FUNCTION tally.lock_log() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOCK TABLE tally_locks.appending IN SHARE ROW EXCLUSIVE MODE;
END
$$;

-- Wait for one's turn, after the lock of `tally_locks.appending`. Two that take the log alone may wait for each other:
-- then one of them is rolled back, and tries again.
CREATE FUNCTION tally.take_turn(of_class integer, of_key integer) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_try_advisory_xact_lock(of_class, of_key) THEN
        RETURN;
    END IF;
    IF EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND classid = of_class::oid AND objid = (of_key::bigint & 4294967295)::oid
            AND objsubid = 2 AND granted AND NOT tally.is_appender(pid, virtualtransaction)
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) THEN
        LOCK TABLE tally_locks.appending IN SHARE ROW EXCLUSIVE MODE;
    ELSE
        PERFORM pg_advisory_xact_lock(of_class, of_key);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION tally.announce_append() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM tally.damage WHERE NOT settling) THEN
        RAISE EXCEPTION 'damage is on record' USING ERRCODE = 'TL500';
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION tally.draw(count integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    first bigint;
BEGIN
    BEGIN
        IF count = 1 THEN
            LOCK TABLE tally_locks.drawing IN ROW EXCLUSIVE MODE;
            first := pg_catalog.nextval('tally.positions');
        ELSE
            LOCK TABLE tally_locks.drawing IN EXCLUSIVE MODE;
            first := pg_catalog.nextval('tally.positions');
            first := pg_catalog.setval('tally.positions', first + count - 1) - count + 1;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'TL000';
    EXCEPTION WHEN SQLSTATE 'TL000' THEN
        RETURN first;
    END;
END
$$;

CREATE OR REPLACE FUNCTION tally.appending() RETURNS text[]
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(virtualtransaction), '{}')
    FROM pg_locks
    WHERE locktype = 'relation' AND relation = 'tally_locks.appending'::regclass AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND tally.is_appender(pid, virtualtransaction)
$$;

-- As in 005, and a proof holds on one start of the server: after another one, transactions that were prepared are known
-- by other ids, and numbers are given out again. `holders` begins with the moment of the start.
CREATE OR REPLACE FUNCTION tally.prove(INOUT head bigint, INOUT pending bigint, INOUT holders text[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    server text := 'since ' || extract(epoch FROM pg_postmaster_start_time());
    last bigint;
    run bigint;
    present text[];
BEGIN
    SELECT greatest(head, published.position) INTO head FROM tally.proven AS published;
    -- With one snapshot for everything, what ended since is not seen; and locks are not replayed on a standby.
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

DROP FUNCTION tally.appenders;

-- Who appends, and since when; and who holds a lock of ours without a right to: what `tally doctor` shows.
CREATE FUNCTION tally.appenders()
RETURNS TABLE (pid integer, application text, state text, seconds double precision, login text, is_appender boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT held.pid, activity.application_name, activity.state,
        extract(epoch FROM clock_timestamp() - coalesce(activity.xact_start, prepared.since))::double precision,
        coalesce(activity.usename::text, prepared.owner), held.is_appender
    FROM (
        SELECT pid, virtualtransaction, tally.is_appender(pid, virtualtransaction) AS is_appender,
            bool_or(locktype = 'relation' AND relation = 'tally_locks.appending'::regclass) AS appends
        FROM pg_locks
        WHERE granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (locktype = 'relation'
                    AND relation IN ('tally_locks.appending'::regclass, 'tally_locks.drawing'::regclass)
                OR locktype = 'advisory' AND objsubid = 2 AND classid IN (1952541804, 1952541811, 1952541812))
        GROUP BY pid, virtualtransaction
    ) AS held
    LEFT JOIN pg_stat_activity AS activity ON activity.pid = held.pid
    LEFT JOIN (
        SELECT own.virtualtransaction, min(known.prepared) AS since, min(pg_get_userbyid(known.ownerid)::text) AS owner
        FROM pg_prepared_xact() AS known JOIN pg_locks AS own ON own.transactionid = known.transaction
        WHERE own.pid IS NULL
        GROUP BY own.virtualtransaction
    ) AS prepared ON held.pid IS NULL AND prepared.virtualtransaction = held.virtualtransaction
    WHERE held.appends OR NOT held.is_appender
    ORDER BY 4 DESC NULLS LAST
$$;

CREATE OR REPLACE FUNCTION tally.begin_append(to_streams text[], from_sources text[])
RETURNS TABLE (stream text, seq bigint, link bytea, org text, foreign_org boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    scope text := nullif(current_setting('tally.org', true), '');
    key integer;
BEGIN
    PERFORM tally.require_safe();
    IF cardinality(to_streams) + cardinality(from_sources) > 1000 THEN
        LOCK TABLE tally_locks.appending IN SHARE ROW EXCLUSIVE MODE;
    ELSE
        LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
        FOR key IN SELECT DISTINCT hashtext(name) FROM unnest(to_streams) AS name ORDER BY 1 LOOP
            PERFORM tally.take_turn(1952541811, key);
        END LOOP;
        FOR key IN SELECT DISTINCT hashtext(name) FROM unnest(from_sources) AS name ORDER BY 1 LOOP
            PERFORM tally.take_turn(1952541812, key);
        END LOOP;
    END IF;
    RETURN QUERY
        SELECT known.stream, known.seq, known.link, known.org,
            coalesce(scope IS NOT NULL AND known.org IS DISTINCT FROM scope, false)
        FROM tally.streams AS known
        WHERE known.stream = ANY (to_streams);
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tally FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tally.lock_log, tally.appenders TO tally_app;
