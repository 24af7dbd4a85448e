SELECT position, projection, key FROM pending_drops ORDER BY position, projection, key
