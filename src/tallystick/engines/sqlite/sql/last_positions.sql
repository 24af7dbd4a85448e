-- The last position of an event, and the last one that was pruned.
SELECT (SELECT coalesce(max(position), 0) FROM events), (SELECT coalesce(max(position), 0) FROM pruned)
