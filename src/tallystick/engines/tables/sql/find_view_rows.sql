SELECT key, state, mark FROM view_rows
WHERE projection = :projection AND epoch = :epoch AND key IN (SELECT value FROM json_each(:keys))
ORDER BY key
