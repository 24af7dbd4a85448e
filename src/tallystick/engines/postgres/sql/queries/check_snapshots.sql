-- Snapshots that no control fact describes, or whose body differs.
SELECT 'snapshot', 'no control fact describes the snapshot ' || id || ' as it is', 0, stream, seq
FROM tally.snapshots
WHERE NOT EXISTS (
    SELECT FROM tally.events AS fact
    WHERE fact.id = snapshots.id AND fact.type = 'tally.snapshotted'
        AND fact.payload::jsonb ->> 'body_hash' = encode(sha256(snapshots.body), 'hex')
)
