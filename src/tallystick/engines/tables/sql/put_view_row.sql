INSERT INTO view_rows (projection, epoch, key, state, mark, checksum) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (projection, epoch, key)
DO UPDATE SET state = excluded.state, mark = excluded.mark, checksum = excluded.checksum
