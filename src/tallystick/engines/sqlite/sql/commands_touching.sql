-- No commit appends more than `span` events, so no range that has `seq` ends further after it.
SELECT DISTINCT org, actor, endpoint, key
FROM command_ranges
JOIN commands ON commands.number = command_ranges.command
WHERE stream = :stream AND last >= :seq AND last < :seq + :span AND first <= :seq
ORDER BY number
