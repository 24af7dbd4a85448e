-- Streams in which the seqs have gaps, and events that stand before the event they follow.
SELECT stream, 0, 'it has ' || count(*) || ' events, but ends at seq ' || max(seq)
FROM events
GROUP BY stream
HAVING count(*) <> max(seq) OR min(seq) <> 1
UNION ALL
SELECT stream, position, 'it stands before position ' || previous || ', which has a lower seq'
FROM (
    SELECT stream, position, lag(position) OVER (PARTITION BY stream ORDER BY seq) AS previous
    FROM events
)
WHERE previous > position
