SELECT position, stream, seq, type, version, id, time, payload, meta, checksum, link, signature
FROM events
WHERE stream = :stream AND seq > :after AND seq <= :until
ORDER BY seq
LIMIT :limit
