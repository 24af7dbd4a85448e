SELECT position FROM events
WHERE type = :type AND position > :after AND position <= :until /* and it is selected */
ORDER BY position
LIMIT :limit
