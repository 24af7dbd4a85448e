SELECT position, id FROM pruned WHERE position > ? ORDER BY position LIMIT ?
