INSERT INTO tally.store (one, store_id, profile, created_at) VALUES (1, %s::uuid, %s, %s)
