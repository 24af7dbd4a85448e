SELECT state_payload FROM snapshots WHERE snapshot_id = ?
