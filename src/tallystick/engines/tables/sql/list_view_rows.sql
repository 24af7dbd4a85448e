SELECT key, state, mark, checksum FROM view_rows WHERE projection = :projection AND epoch = :epoch ORDER BY key
