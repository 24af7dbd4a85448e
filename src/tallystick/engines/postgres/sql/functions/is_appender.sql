-- Whether a process, or a prepared transaction, belongs to a login that may append. If nobody can tell, it counts as
-- one.
CREATE OR REPLACE FUNCTION tally.is_appender(of_pid integer, of_transaction text) RETURNS boolean
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
