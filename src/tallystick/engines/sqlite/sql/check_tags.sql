-- Tags that the index lacks, and postings that neither an event nor what a prune kept explains.
SELECT said.position, said.stream, said.seq, 'the index of tags lacks ' || said.tag
FROM (
    SELECT events.position, events.stream, events.seq, events.type, events.org, listed.value AS tag
    FROM events CROSS JOIN json_each(CAST(events.meta AS TEXT), '$.tags') AS listed
    WHERE instr(events.meta, '"tags":[') > 0
        AND json_type(CAST(events.meta AS TEXT), '$.tags') = 'array' AND listed.type = 'text'
    UNION ALL
    SELECT pruned_tags.position, '', 0, pruned.type, pruned.org, pruned_tags.tag
    FROM pruned_tags LEFT JOIN pruned ON pruned.position = pruned_tags.position
) AS said
WHERE NOT EXISTS (
    SELECT 1 FROM event_tags AS kept
    WHERE kept.tag = said.tag AND kept.type = said.type AND kept.position = said.position AND kept.org IS said.org
)
UNION ALL
SELECT kept.position, '', 0, 'the index of tags has ' || kept.tag || ' for ' || kept.type || ', and no event has both'
FROM event_tags AS kept
WHERE NOT EXISTS (
        SELECT 1 FROM events CROSS JOIN json_each(CAST(events.meta AS TEXT), '$.tags') AS listed
        WHERE events.position = kept.position AND events.type = kept.type AND events.org IS kept.org
            AND json_type(CAST(events.meta AS TEXT), '$.tags') = 'array' AND listed.value = kept.tag
    )
    AND NOT EXISTS (
        SELECT 1 FROM pruned JOIN pruned_tags ON pruned_tags.position = pruned.position AND pruned_tags.tag = kept.tag
        WHERE pruned.position = kept.position AND pruned.type = kept.type AND pruned.org IS kept.org
    )
