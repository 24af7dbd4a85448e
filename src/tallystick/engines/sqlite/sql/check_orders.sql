-- Streams in which seqs are missing that no cut covers, and events whose position is before that of their predecessor.
SELECT stream, 0, 'it has ' || count(*) || ' events from seq ' || min(seq) || ' to ' || max(seq)
    || ', and is pruned up to seq ' || max(gone)
FROM (
    SELECT stream, seq, coalesce((SELECT max(through) FROM cuts WHERE cuts.stream = events.stream), 0) AS gone
    FROM events
)
GROUP BY stream
HAVING count(*) <> max(seq) - max(gone) OR min(seq) <> max(gone) + 1
UNION ALL
SELECT stream, position, 'it stands before position ' || previous || ', which has a lower seq'
FROM (
    SELECT stream, position, lag(position) OVER (PARTITION BY stream ORDER BY seq) AS previous
    FROM events
)
WHERE previous > position
