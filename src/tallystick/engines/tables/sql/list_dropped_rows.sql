SELECT key FROM view_rows
WHERE projection = :projection AND epoch = :epoch AND state IS NULL
ORDER BY key LIMIT :limit
