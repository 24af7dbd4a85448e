SELECT stream, through, link, first_position, last_position, count, org
FROM cuts
WHERE stream = ?
ORDER BY through DESC
LIMIT 1
