DELETE FROM batch_rows WHERE projection = :projection AND (:epoch IS NULL OR epoch = :epoch)
