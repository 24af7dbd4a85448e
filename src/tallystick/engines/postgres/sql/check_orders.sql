-- Streams that have gaps, and events that stand before the event they follow.
SELECT 'order', 'it has ' || count(*) || ' events, but ends at seq ' || max(seq), 0, stream, 0
FROM tally.events
GROUP BY stream
HAVING count(*) <> max(seq) OR min(seq) <> 1
UNION ALL
SELECT 'order', 'it stands before position ' || previous || ', which has a lower seq', position, stream, seq
FROM (
    SELECT stream, seq, position, lag(position) OVER (PARTITION BY stream ORDER BY seq) AS previous FROM tally.events
) AS ordered
WHERE previous > position
