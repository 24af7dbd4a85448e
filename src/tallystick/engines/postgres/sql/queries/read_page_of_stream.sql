-- Inside a stream, seq and position rise together: so the index on (stream, seq) gives the order without a sort.
SELECT position, stream, seq, type, version, uuid_send(id), time, convert_to(payload, 'UTF8'), convert_to(meta, 'UTF8'),
    checksum, link, signature
FROM tally.events
WHERE stream = %(stream)s AND position > %(after)s AND position <= %(until)s /* and it is selected */
ORDER BY seq
LIMIT %(limit)s
