DELETE FROM view_rows WHERE projection = :projection AND epoch = :epoch AND key IN (
    SELECT key FROM batch_rows WHERE projection = :projection AND epoch = :epoch AND batch = :batch AND state IS NULL
)
