INSERT INTO tally.dead_letters (consumer, position, stream, seq, type, attempts, parked, reason)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (position, consumer) DO UPDATE SET
    attempts = excluded.attempts, parked = excluded.parked, reason = excluded.reason
RETURNING position
