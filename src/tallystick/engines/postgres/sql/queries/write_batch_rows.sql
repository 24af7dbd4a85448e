INSERT INTO tally.view_rows AS stored (view, key, dropped, state, mark, checksum)
SELECT view, key, false, state, mark, checksum FROM tally.batch_rows
WHERE view = %(number)s AND batch = %(batch)s AND state IS NOT NULL
ON CONFLICT (view, key) DO UPDATE SET dropped = false, state = excluded.state, mark = excluded.mark,
    checksum = excluded.checksum
