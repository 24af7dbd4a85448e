-- A table's name begins with a letter: so the tables of `a`, epoch 1, are told from those of `a_1`.
SELECT 'DROP TABLE ' || string_agg(format('tally_views.%%I', relname), ', ')
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE nspname = 'tally_views' AND relkind IN ('r', 'p') AND starts_with(relname::text, %(prefix)s)
    AND substr(relname::text, length(%(prefix)s) + 1, 1) ~ '[A-Za-z]'
HAVING count(*) > 0
