INSERT INTO commands (org, actor, endpoint, key, request_hash, recorded, response) VALUES (?, ?, ?, ?, ?, ?, ?)
