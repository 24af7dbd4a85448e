INSERT INTO dead_letters (consumer, position, stream, seq, type, attempts, parked, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
