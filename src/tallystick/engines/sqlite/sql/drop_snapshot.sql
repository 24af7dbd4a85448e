DELETE FROM snapshots WHERE snapshot_id = ?
