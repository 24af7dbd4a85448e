WITH asked (stream, seq) AS (VALUES (?, ?))
SELECT events.stream, events.seq, events.link
FROM asked CROSS JOIN events ON events.stream = asked.stream AND events.seq = asked.seq
