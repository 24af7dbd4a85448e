SELECT consumer, position, stream, seq, type, attempts, parked, reason FROM dead_letters
WHERE consumer = ? AND position = ?
