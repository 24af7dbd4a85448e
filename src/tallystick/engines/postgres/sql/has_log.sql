-- Not to_regclass: it may answer from a cache that is older than the lock this is asked under.
SELECT EXISTS (
    SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE nspname = 'tally' AND relname = 'migrations'
)
