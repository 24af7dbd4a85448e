SELECT position FROM pruned
WHERE position > :after AND position <= :until /* and it is selected */
ORDER BY position
LIMIT :limit
