-- Everything that a query matches, in order, and whether an event that is not there was pruned. One snapshot sees all.
SELECT matched.position, stream, seq, type, version, uuid_send(id), time, convert_to(payload, 'UTF8'),
    convert_to(meta, 'UTF8'), checksum, link, signature,
    CASE WHEN stored.position IS NULL THEN tally.was_pruned(matched.position) END
FROM tally.matching(%s::jsonb, %s, NULL, %s, NULL) AS matched(position)
LEFT JOIN tally.events AS stored ON stored.position = matched.position
ORDER BY matched.position
