-- The event at `after` comes first, without its payload: the next event is compared with its link.
SELECT position, stream, seq, type, version, uuid_send(id), time,
    CASE WHEN seq > %(after)s THEN convert_to(payload, 'UTF8') END, convert_to(meta, 'UTF8'), checksum, link, signature
FROM tally.events
WHERE stream = %(stream)s AND seq >= %(after)s AND seq <= %(until)s
ORDER BY seq
LIMIT %(limit)s
