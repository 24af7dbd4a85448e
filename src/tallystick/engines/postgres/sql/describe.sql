-- What is worth knowing of the database, as pairs. `events_per_day` is the rate of the newest 10,000 positions.
SELECT 'server', current_setting('server_version')
UNION ALL SELECT 'format', (SELECT max(number) FROM tally.migrations)::text
UNION ALL SELECT 'role', current_user::text
UNION ALL SELECT 'org', nullif(current_setting('tally.org', true), '')
UNION ALL SELECT 'events_head', (SELECT max(position) FROM tally.events)::text
UNION ALL SELECT 'published_head', (SELECT position FROM tally.proven)::text
UNION ALL SELECT 'streams', (SELECT count(*) FROM tally.streams)::text
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
