SELECT count(*) FROM batch_rows AS new
WHERE projection = :projection AND epoch = :epoch AND batch = :batch AND state IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM view_rows WHERE projection = new.projection AND epoch = new.epoch AND key = new.key
)
