SELECT coalesce(sum(body_bytes), 0) FROM snapshots
