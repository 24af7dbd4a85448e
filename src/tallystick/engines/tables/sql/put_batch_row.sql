INSERT INTO batch_rows (projection, epoch, batch, key, state, mark, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (projection, epoch, batch, key)
DO UPDATE SET state = excluded.state, mark = excluded.mark, checksum = excluded.checksum
