SELECT events.position, events.stream, events.seq, events.type, events.version, events.id, events.time, events.payload,
    events.meta, events.checksum, events.link, events.signature
FROM json_each(?) AS wanted CROSS JOIN events ON events.position = wanted.value
ORDER BY events.position
