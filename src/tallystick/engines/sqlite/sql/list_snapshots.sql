SELECT snapshot_id FROM snapshots ORDER BY snapshot_id
