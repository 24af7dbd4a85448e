WITH asked (stream, seq) AS (VALUES (?, ?))
SELECT cuts.stream, cuts.through, cuts.link
FROM asked CROSS JOIN cuts ON cuts.stream = asked.stream AND cuts.through = asked.seq
