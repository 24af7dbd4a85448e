SELECT name, uuid_send(store_id), position, link_position, link FROM tally.checkpoints WHERE name = %s
