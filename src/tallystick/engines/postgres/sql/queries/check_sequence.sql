-- The head cannot be published beyond the last event.
SELECT 'sequence', 'the head is published as ' || proven.position || ', but the last event is ' || last.position,
    last.position, '', 0
FROM tally.proven, (SELECT coalesce(max(position), 0) AS position FROM tally.events) AS last
WHERE proven.position > last.position
