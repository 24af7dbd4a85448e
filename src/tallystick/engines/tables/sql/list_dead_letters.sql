SELECT consumer, position, stream, seq, type, attempts, parked, reason FROM dead_letters
WHERE position > :after AND (:consumer IS NULL OR consumer = :consumer)
ORDER BY position, consumer LIMIT :limit
