-- Who appends, and since when; and who holds a lock of ours without a role of ours. `tally doctor` shows it.
CREATE OR REPLACE FUNCTION tally.appenders()
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
                    AND relation IN (
                        'tally_locks.appending'::regclass, 'tally_locks.drawing'::regclass,
                        'tally_locks.tag_gate'::regclass
                    )
                OR locktype = 'advisory' AND objsubid = 2 AND classid IN (1952541804, 1952541811, 1952541812, 1952541813))
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

GRANT EXECUTE ON FUNCTION tally.appenders TO tally_app;
