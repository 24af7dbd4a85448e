SELECT consumer, position, stream, seq, type, attempts, parked, reason FROM tally.dead_letters
WHERE position > %(after)s AND (%(consumer)s::text IS NULL OR consumer = %(consumer)s)
ORDER BY position, consumer LIMIT %(limit)s
