SELECT position FROM event_tags
WHERE tag = :tag AND type = :type AND position > :after AND position <= :until /* and it is selected */
ORDER BY position
LIMIT :limit
