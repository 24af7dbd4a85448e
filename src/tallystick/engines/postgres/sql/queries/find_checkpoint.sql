SELECT name, uuid_send(store_id), position, link_position, link, checksum FROM tally.checkpoints WHERE name = %s
