INSERT INTO tally.checkpoints (name, store_id, position, link_position, link, checksum)
VALUES (%s, %s::uuid, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
