-- Events and postings of tags that do not match. What was pruned keeps its postings.
WITH known AS (
    SELECT tag, type, position, org FROM tally.events, unnest(tally.tags_of(meta)) AS tag
    UNION ALL
    SELECT tag, type, position, org FROM tally.pruned, unnest(tags) AS tag
)
SELECT 'tags', 'the index of tags lacks ' || quote_literal(tag) || ' of this event', position, '', 0
FROM known
WHERE NOT EXISTS (
    SELECT FROM tally.event_tags AS posting
    WHERE (posting.tag, posting.type, posting.position) = (known.tag, known.type, known.position)
        AND posting.org IS NOT DISTINCT FROM known.org
)
UNION ALL
SELECT 'tags', 'the index of tags has ' || quote_literal(tag) || ', which this event does not have', position, '', 0
FROM tally.event_tags AS posting
WHERE NOT EXISTS (
    SELECT FROM known
    WHERE (known.tag, known.type, known.position) = (posting.tag, posting.type, posting.position)
        AND known.org IS NOT DISTINCT FROM posting.org
)
