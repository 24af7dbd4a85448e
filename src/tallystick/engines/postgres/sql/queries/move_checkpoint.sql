UPDATE tally.checkpoints SET store_id = %s::uuid, position = %s, link_position = %s, link = %s, checksum = %s
WHERE name = %s AND position = %s
