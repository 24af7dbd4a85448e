-- Snapshots that no control fact names, or that have another length than recorded.
SELECT stream, seq, 'no control fact tells of the snapshot ' || lower(hex(snapshot_id))
FROM snapshots
WHERE NOT EXISTS (SELECT 1 FROM events WHERE events.id = snapshots.snapshot_id AND events.type = 'tally.snapshotted')
UNION ALL
SELECT stream, seq, 'the snapshot ' || lower(hex(snapshot_id)) || ' has ' || length(state_payload) || ' bytes, not '
    || body_bytes
FROM snapshots
WHERE length(state_payload) <> body_bytes
