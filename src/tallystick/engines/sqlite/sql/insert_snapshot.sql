-- A retry finds the snapshot that it made. `last_event_id` is the position of the last event in the state.
INSERT INTO snapshots (snapshot_id, run_id, stream, seq, position, last_event_id, link, reducer, reducer_version,
    upcasters, kind, base, state_hash, body_bytes, created_at, state_payload)
SELECT :id, :run_id, :stream, :seq, :position,
    coalesce(
        (SELECT position FROM events WHERE stream = :stream AND seq = :seq),
        (SELECT last_position FROM cuts WHERE stream = :stream AND through = :seq),
        :position
    ),
    :link, :reducer, :reducer_version, :upcasters, :kind, :base, :state_hash, length(:body), :made, :body
WHERE NOT EXISTS (SELECT 1 FROM snapshots WHERE snapshot_id = :id)
