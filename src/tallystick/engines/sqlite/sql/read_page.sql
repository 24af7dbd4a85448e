-- `>= :first` and not `> :after`: SQLite would search for `after` itself, which may be on a damaged page.
SELECT position, stream, seq, type, version, id, time, payload, meta, checksum, link, signature
FROM events
WHERE position >= :first AND position <= :until /* and it is selected */
ORDER BY position
LIMIT :limit
