SELECT position FROM pruned
WHERE type IS :type AND position > :after AND position <= :until /* and it is selected */
ORDER BY position
LIMIT :limit
