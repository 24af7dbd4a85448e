-- By position alone: what an index says of a damaged table is not to be relied on.
SELECT position, stream, seq, type, version, id, time, payload, meta, checksum, link, signature, recorded
FROM events NOT INDEXED
WHERE position BETWEEN ? AND ?
ORDER BY position
