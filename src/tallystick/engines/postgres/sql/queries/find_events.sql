SELECT position, stream, seq, type, version, id, time, payload, meta, checksum, link, signature
FROM tally.events_with(%s)
