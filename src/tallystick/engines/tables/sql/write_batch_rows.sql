INSERT INTO view_rows (projection, epoch, key, state, mark, checksum)
SELECT projection, epoch, key, state, mark, checksum FROM batch_rows
WHERE projection = :projection AND epoch = :epoch AND batch = :batch AND state IS NOT NULL
ON CONFLICT (projection, epoch, key)
DO UPDATE SET state = excluded.state, mark = excluded.mark, checksum = excluded.checksum
