SELECT DISTINCT ON (stream) stream, through, link, first_position, last_position, count, org
FROM tally.cuts
WHERE stream = ANY (%s::text[])
ORDER BY stream, through DESC
