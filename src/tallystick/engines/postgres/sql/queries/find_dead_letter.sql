SELECT consumer, position, stream, seq, type, attempts, parked, reason FROM tally.dead_letters
WHERE consumer = %s AND position = %s
