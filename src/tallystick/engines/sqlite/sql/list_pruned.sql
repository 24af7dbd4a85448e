SELECT position, id, type, org, (
    SELECT json_group_array(tag) FROM (SELECT tag FROM pruned_tags WHERE position = pruned.position ORDER BY tag)
)
FROM pruned
WHERE position > ?
ORDER BY position
LIMIT ?
