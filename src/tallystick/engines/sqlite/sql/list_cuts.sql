SELECT stream, through, link, first_position, last_position, count, org
FROM cuts
WHERE stream > ? AND through = (SELECT max(through) FROM cuts AS of_stream WHERE of_stream.stream = cuts.stream)
ORDER BY stream
LIMIT ?
