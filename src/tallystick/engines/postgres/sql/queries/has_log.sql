-- Not to_regclass: it may answer from a cache that is older than the lock under which this runs. A table of others, or
-- a view that runs code, is not a log of ours.
SELECT EXISTS (
    SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE nspname = 'tally' AND relname = 'migrations' AND relkind = 'r' AND pg_get_userbyid(relowner) = 'tally_owner'
)
