-- Erasures that did not happen or that no control fact names, and payloads that are gone without an erasure.
SELECT 'erasure', 'the payload is gone, and no erasure is noted', position, stream, seq
FROM tally.events
WHERE payload IS NULL AND NOT EXISTS (
    SELECT FROM tally.erasures WHERE erasures.position = events.position AND erasures.checksum = events.checksum
)
UNION ALL
SELECT 'erasure', 'it is recorded as erased, but there is no such event, and it was not pruned', position, stream, seq
FROM tally.erasures
WHERE NOT EXISTS (
        SELECT FROM tally.events
        WHERE events.position = erasures.position AND events.stream = erasures.stream AND events.seq = erasures.seq
            AND events.checksum = erasures.checksum
    )
    AND NOT EXISTS (
        SELECT FROM tally.cuts WHERE cuts.stream = erasures.stream AND cuts.through >= erasures.seq
    )
UNION ALL
SELECT 'erasure', 'it is recorded as erased, but the payload is still stored', erasures.position, erasures.stream,
    erasures.seq
FROM tally.erasures JOIN tally.events ON events.position = erasures.position
WHERE events.payload IS NOT NULL
UNION ALL
SELECT 'erasure', 'no control fact at position ' || fact_position || ' names this erasure', position, stream, seq
FROM tally.erasures
WHERE NOT EXISTS (
    SELECT FROM tally.events AS fact
    WHERE fact.position = erasures.fact_position AND fact.type = 'tally.erased' AND starts_with(fact.stream, 'tally.')
        AND (fact.payload::jsonb ->> 'stream', fact.payload::jsonb ->> 'seq', fact.payload::jsonb ->> 'checksum')
            = (erasures.stream, erasures.seq::text, encode(erasures.checksum, 'hex'))
)
