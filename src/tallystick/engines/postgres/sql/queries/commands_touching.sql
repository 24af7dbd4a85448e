-- No commit appends more than `span` events, so no range that holds `seq` ends further after it.
SELECT known.org, known.actor, known.endpoint, known.key
FROM tally.commands AS known
WHERE known.number IN (
    SELECT command FROM tally.command_ranges
    WHERE stream = %(stream)s AND last_seq >= %(seq)s AND last_seq < %(seq)s + %(span)s AND first_seq <= %(seq)s
)
ORDER BY known.number
