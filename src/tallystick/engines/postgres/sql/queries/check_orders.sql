-- Streams that lack seqs which no cut covers, and events whose position is lower than that of the event they follow.
SELECT 'order', 'it has ' || count(*) || ' events from seq ' || min(seq) || ' to ' || max(seq)
    || ', and is pruned up to seq ' || coalesce(gone.through, 0), 0, stream, 0
FROM tally.events
LEFT JOIN (SELECT stream, max(through) AS through FROM tally.cuts GROUP BY stream) AS gone USING (stream)
GROUP BY stream, gone.through
HAVING count(*) <> max(seq) - coalesce(gone.through, 0) OR min(seq) <> coalesce(gone.through, 0) + 1
UNION ALL
SELECT 'order', 'it comes before position ' || previous || ', which has a lower seq', position, stream, seq
FROM (
    SELECT stream, seq, position, lag(position) OVER (PARTITION BY stream ORDER BY seq) AS previous FROM tally.events
) AS ordered
WHERE previous > position
