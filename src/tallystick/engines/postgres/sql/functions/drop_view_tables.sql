-- Drop the tables whose names begin with a prefix, as the owner of the schema: dropping runs no code that was attached
-- to a table. The name of a table begins with a letter, so the tables of `a`, epoch 1, differ from those of `a_1`.
-- Objects that others made from a table go with it: they would hold up erasures, rebuilds and drops.
CREATE OR REPLACE FUNCTION tally.drop_view_tables(prefix text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found text;
BEGIN
    IF (prefix ~ '^view_.+_[0-9]+_$') IS NOT TRUE THEN
        RAISE EXCEPTION 'tables are dropped by projection and epoch' USING ERRCODE = 'TL409';
    END IF;
    SELECT string_agg(format('tally_views.%I', relname), ', ') INTO found
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE nspname = 'tally_views' AND relkind IN ('r', 'p') AND starts_with(relname::text, prefix)
        AND substr(relname::text, length(prefix) + 1, 1) ~ '[A-Za-z]';
    IF found IS NOT NULL THEN
        EXECUTE 'DROP TABLE ' || found || ' CASCADE';
    END IF;
END
$$;

GRANT EXECUTE ON FUNCTION tally.drop_view_tables TO tally_app;
