INSERT INTO tally.checkpoints (name, store_id, position, link_position, link) VALUES (%s, %s::uuid, %s, %s, %s)
ON CONFLICT DO NOTHING
