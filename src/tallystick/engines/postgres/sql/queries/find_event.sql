SELECT position, stream, seq, type, version, uuid_send(id), time, convert_to(payload, 'UTF8'), convert_to(meta, 'UTF8'),
    checksum, link, signature
FROM tally.events
WHERE id = %s::uuid
