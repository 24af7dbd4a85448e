-- Facts about the database, as pairs. `events_per_day` is the rate of the newest 10,000 positions.
SELECT 'server', current_setting('server_version')
UNION ALL SELECT 'format', (SELECT max(number) FROM tally.migrations)::text
UNION ALL SELECT 'role', current_user::text
UNION ALL SELECT 'org', nullif(current_setting('tally.org', true), '')
UNION ALL SELECT 'events_head', (SELECT max(position) FROM tally.events)::text
UNION ALL SELECT 'published_head', (SELECT position FROM tally.proven)::text
UNION ALL SELECT 'streams', (SELECT count(*) FROM tally.streams)::text
UNION ALL SELECT 'floor', (SELECT coalesce(max(last_position), 0) FROM tally.cuts)::text
UNION ALL SELECT 'erasures', (SELECT count(*) FROM tally.erasures)::text
UNION ALL SELECT 'snapshots', (SELECT count(*) FROM tally.snapshots)::text
UNION ALL SELECT 'commands', (SELECT count(*) FROM tally.commands)::text
UNION ALL SELECT 'dead_rows', (SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'tally.events'::regclass)::text
UNION ALL SELECT 'log_bytes', pg_total_relation_size('tally.events')::text
UNION ALL SELECT 'table_bytes', pg_table_size('tally.events')::text
UNION ALL SELECT 'index_bytes', pg_indexes_size('tally.events')::text
UNION ALL SELECT 'database_bytes', pg_database_size(current_database())::text
UNION ALL SELECT 'events_per_day', (
    SELECT round(count(*) * 86400e9 / greatest(max(recorded) - min(recorded), 1000000000))::text
    FROM (SELECT recorded FROM tally.events ORDER BY position DESC LIMIT 10000) AS newest
)
UNION ALL SELECT 'bytes_per_event', (
    SELECT round(pg_total_relation_size('tally.events') / greatest(reltuples, 1))::text
    FROM pg_class WHERE oid = 'tally.events'::regclass
)
