-- From one type to the next, and not over the postings between them.
SELECT type FROM event_tags WHERE tag = ? AND type > ? ORDER BY type LIMIT 1
