-- Erasures that did not happen or that no control fact names, and payloads that are missing without an erasure.
SELECT position, stream, seq, 'the payload is gone, and no erasure is noted'
FROM events
WHERE payload IS NULL AND NOT EXISTS (
    SELECT 1 FROM erasures WHERE erasures.position = events.position AND erasures.checksum = events.checksum
)
UNION ALL
SELECT position, stream, seq, 'it is noted as erased, but there is no such event, and it was not pruned'
FROM erasures
WHERE NOT EXISTS (
        SELECT 1 FROM events
        WHERE events.position = erasures.position AND events.stream = erasures.stream AND events.seq = erasures.seq
            AND events.checksum = erasures.checksum
    )
    AND NOT EXISTS (SELECT 1 FROM cuts WHERE cuts.stream = erasures.stream AND cuts.through >= erasures.seq)
UNION ALL
SELECT erasures.position, erasures.stream, erasures.seq, 'it is noted as erased, but the payload is still there'
FROM erasures
JOIN events ON events.position = erasures.position
WHERE events.payload IS NOT NULL
UNION ALL
SELECT position, stream, seq, 'no control fact at position ' || fact_position || ' names this erasure'
FROM erasures
WHERE NOT EXISTS (
    SELECT 1 FROM events AS fact
    WHERE fact.position = erasures.fact_position AND fact.type = 'tally.erased'
        AND instr(CAST(fact.payload AS TEXT), '"stream":"' || erasures.stream || '"') > 0
        AND instr(CAST(fact.payload AS TEXT), '"checksum":"' || lower(hex(erasures.checksum)) || '"') > 0
        AND instr(replace(CAST(fact.payload AS TEXT), '}', ','), '"seq":' || erasures.seq || ',') > 0
)
