-- Inside a stream, seq and position rise together: so the index on (stream, seq) gives the order without a sort.
SELECT position, stream, seq, type, version, id, time, payload, meta, checksum, link, signature
FROM events
WHERE stream = :stream AND position >= :first AND position <= :until /* and it is selected */
ORDER BY seq
LIMIT :limit
