SELECT column_name::text
FROM information_schema.columns
WHERE table_schema = 'tally_views' AND table_name = %s
ORDER BY ordinal_position
