INSERT INTO store (one, store_id, profile, created_at) VALUES (1, randomblob(16), ?, ?)
