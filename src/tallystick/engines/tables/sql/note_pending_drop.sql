INSERT OR IGNORE INTO pending_drops (position, projection, key) VALUES (?, ?, ?)
