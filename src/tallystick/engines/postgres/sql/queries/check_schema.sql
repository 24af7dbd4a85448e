-- What protects the log: triggers, row-level security, indexes, and no right that nobody should have.
SELECT 'schema', 'the trigger ' || wanted.name || ' is missing or not always on', 0, '', 0
FROM (VALUES
    ('tally.events', 'events_are_not_changed'), ('tally.events', 'events_are_not_truncated'),
    ('tally.events', 'appends_are_announced'), ('tally.streams', 'streams_only_grow'),
    ('tally.streams', 'streams_are_not_deleted'), ('tally.streams', 'streams_are_not_truncated'),
    ('tally.store', 'store_is_not_changed'), ('tally.events', 'pruned_events_are_noted'),
    ('tally.cuts', 'cuts_are_named_by_facts'), ('tally.cuts', 'cuts_are_not_changed'),
    ('tally.cuts', 'cuts_are_not_truncated'), ('tally.pruned', 'pruned_are_not_changed'),
    ('tally.pruned', 'pruned_are_not_truncated'), ('tally.erasures', 'erasures_are_named_by_facts'),
    ('tally.erasures', 'erasures_are_not_changed'), ('tally.erasures', 'erasures_are_not_truncated'),
    ('tally.snapshots', 'snapshots_are_named_by_facts'), ('tally.snapshots', 'snapshots_are_not_changed'),
    ('tally.snapshots', 'snapshots_are_not_truncated'), ('tally.commands', 'commands_are_not_changed'),
    ('tally.commands', 'commands_are_not_truncated'), ('tally.events', 'tags_are_indexed'),
    ('tally.event_tags', 'event_tags_are_not_changed'), ('tally.event_tags', 'event_tags_are_not_truncated')
) AS wanted(of_table, name)
WHERE NOT EXISTS (
    SELECT FROM pg_trigger
    WHERE tgrelid = wanted.of_table::regclass AND tgname = wanted.name AND tgenabled = 'A'
)
UNION ALL
SELECT 'schema', 'row-level security of ' || oid::regclass || ' is not forced', 0, '', 0
FROM pg_class
WHERE relnamespace = 'tally'::regnamespace
    AND relname IN (
        'events', 'event_tags', 'streams', 'cuts', 'pruned', 'erasures', 'snapshots', 'commands', 'command_ranges'
    )
    AND NOT (relrowsecurity AND relforcerowsecurity)
UNION ALL
SELECT 'schema', role || ' may ' || privilege || ' ' || of_table, 0, '', 0
FROM unnest(ARRAY[
        'tally_app', 'tally_reader', 'tally_control', 'tally_projector', 'tally_maintenance', 'public'
    ]) AS role,
    unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) AS privilege,
    unnest(ARRAY[
        'tally.events', 'tally.streams', 'tally.store', 'tally.proven', 'tally.cuts', 'tally.pruned', 'tally.erasures',
        'tally.snapshots', 'tally.commands', 'tally.command_ranges', 'tally.damage',
        'tally.event_tags'
    ]) AS of_table
WHERE has_table_privilege(role, of_table, privilege)
    -- the other three can do what tally_app can: report that once
    AND NOT (role IN ('tally_control', 'tally_projector', 'tally_maintenance')
        AND has_table_privilege('tally_app', of_table, privilege))
UNION ALL
SELECT 'schema', role || ' may execute ' || oid::regprocedure, 0, '', 0
FROM unnest(ARRAY['tally_app', 'tally_reader', 'public']) AS role, pg_proc
WHERE pronamespace = 'tally'::regnamespace
    AND proname IN ('prune', 'erase', 'drop_snapshots', 'forget', 'erase_responses', 'forget_commands_before',
        'settle_damage', 'forget_settled_damage', 'receive')
    AND has_function_privilege(role, oid, 'EXECUTE')
UNION ALL
SELECT 'schema', 'tally_app may execute ' || oid::regprocedure, 0, '', 0
FROM pg_proc
WHERE pronamespace = 'tally'::regnamespace AND proname IN ('declare_infrastructure', 'keep_snapshot')
    AND has_function_privilege('tally_app', oid, 'EXECUTE')
UNION ALL
SELECT 'schema', role || ' may create in ' || schema, 0, '', 0
FROM unnest(ARRAY['tally_app', 'tally_reader', 'public']) AS role,
    unnest(ARRAY['tally', 'tally_views', 'tally_locks']) AS schema
WHERE has_schema_privilege(role, schema, 'CREATE')
UNION ALL
SELECT 'schema', role || ' may use tally_locks', 0, '', 0
FROM unnest(ARRAY['tally_app', 'tally_reader', 'public']) AS role
WHERE has_schema_privilege(role, 'tally_locks', 'USAGE')
UNION ALL
SELECT 'schema', oid::regclass || ' belongs to ' || pg_get_userbyid(relowner) || ', not to tally_projector', 0, '', 0
FROM pg_class
WHERE relnamespace = 'tally_views'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
    AND pg_get_userbyid(relowner) <> 'tally_projector'
UNION ALL
SELECT 'schema', 'the sequence of positions has CACHE ' || seqcache || ', not 1', 0, '', 0
FROM pg_sequence
WHERE seqrelid = 'tally.positions'::regclass AND seqcache <> 1
UNION ALL
SELECT 'schema', 'the index ' || wanted || ' is missing', 0, '', 0
FROM unnest(ARRAY[
    'events_by_stream', 'events_by_id', 'events_by_type', 'events_by_org', 'events_pkey', 'pruned_by_id', 'commands_pkey',
    'event_tags_pkey'
]) AS wanted
WHERE to_regclass('tally.' || wanted) IS NULL
