SELECT position FROM events
WHERE position > :after AND position <= :until /* and it is selected */
ORDER BY position
LIMIT :limit
