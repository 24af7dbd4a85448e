-- The whole index, from the events and from what prunes kept, in order of the key.
INSERT INTO event_tags (tag, type, position, org)
SELECT listed.value, events.type, events.position, events.org
FROM events CROSS JOIN json_each(CAST(events.meta AS TEXT), '$.tags') AS listed
WHERE instr(events.meta, '"tags":[') > 0
    AND json_type(CAST(events.meta AS TEXT), '$.tags') = 'array' AND listed.type = 'text'
UNION ALL
SELECT pruned_tags.tag, pruned.type, pruned.position, pruned.org
FROM pruned_tags JOIN pruned ON pruned.position = pruned_tags.position
ORDER BY 1, 2, 3
