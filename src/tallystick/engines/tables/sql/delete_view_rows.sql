DELETE FROM view_rows WHERE projection = :projection AND epoch = :epoch AND key IN (
    SELECT key FROM view_rows WHERE projection = :projection AND epoch = :epoch LIMIT :limit
)
