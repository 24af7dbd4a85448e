-- Every column, so that every page of every event is read.
SELECT position, payload, checksum, stream, seq, type, version, id, time, meta, link, signature, recorded
FROM events NOT INDEXED
WHERE position BETWEEN ? AND ?
ORDER BY position
