SELECT position, stream, seq, type, version, uuid_send(id), time, convert_to(payload, 'UTF8'), convert_to(meta, 'UTF8'),
    checksum, link, signature
FROM tally.events
WHERE position > %(after)s AND position <= %(until)s /* and it is selected */
ORDER BY position
LIMIT %(limit)s
