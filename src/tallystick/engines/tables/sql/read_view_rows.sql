SELECT key, state, mark, checksum FROM view_rows
WHERE projection = :projection AND epoch = :epoch AND key > :after AND (:until IS NULL OR key <= :until)
    AND state IS NOT NULL
ORDER BY key LIMIT :limit
