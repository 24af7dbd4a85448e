SELECT count(*) FROM batch_rows WHERE projection = :projection AND epoch = :epoch AND batch = :batch
