SELECT DISTINCT ON (stream) stream, through, link, first_position, last_position, count, org
FROM tally.cuts
WHERE stream > %s
ORDER BY stream, through DESC
LIMIT %s
