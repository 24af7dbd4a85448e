INSERT INTO dead_letters (consumer, position, stream, seq, type, attempts, parked, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (position, consumer) DO UPDATE SET
    attempts = excluded.attempts, parked = excluded.parked, reason = excluded.reason
