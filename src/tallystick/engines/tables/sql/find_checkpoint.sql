SELECT name, store_id, position, link_position, link, checksum FROM checkpoints WHERE name = ?
