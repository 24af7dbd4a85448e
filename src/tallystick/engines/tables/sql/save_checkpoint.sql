INSERT INTO checkpoints (name, store_id, position, link_position, link, checksum) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET store_id = excluded.store_id, position = excluded.position,
    link_position = excluded.link_position, link = excluded.link, checksum = excluded.checksum
