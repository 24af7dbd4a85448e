-- By position: an index of a damaged table cannot be trusted.
SELECT position, stream, seq, type, version, id, time, payload, meta, checksum, link, signature, recorded
FROM events NOT INDEXED
WHERE position BETWEEN ? AND ?
ORDER BY position
