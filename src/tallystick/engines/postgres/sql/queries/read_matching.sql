-- The places at which a query matches, in order, with those of their events that are selected. One snapshot sees both.
SELECT matched.position, stored.stream, stored.seq, stored.type, stored.version, uuid_send(stored.id), stored.time,
    convert_to(stored.payload, 'UTF8'), convert_to(stored.meta, 'UTF8'), stored.checksum, stored.link, stored.signature
FROM tally.matching(%(items)s::jsonb, %(past)s, %(until)s, %(org)s, %(most)s) AS matched(position)
LEFT JOIN (
    SELECT * FROM tally.events WHERE true /* and it is selected */
) AS stored ON stored.position = matched.position
ORDER BY matched.position
