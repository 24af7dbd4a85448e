SELECT position, stream, seq, type, version, uuid_send(id), time, convert_to(payload, 'UTF8'), convert_to(meta, 'UTF8'),
    checksum, link, signature
FROM tally.events
WHERE stream = %s AND seq > %s AND seq <= %s
ORDER BY seq
LIMIT %s
