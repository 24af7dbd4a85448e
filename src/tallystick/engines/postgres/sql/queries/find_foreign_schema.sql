SELECT nspname, pg_get_userbyid(nspowner)
FROM pg_namespace
WHERE nspname IN ('tally', 'tally_locks', 'tally_views') AND pg_get_userbyid(nspowner) <> 'tally_owner'
ORDER BY 1
LIMIT 1
