SELECT 1 FROM pruned WHERE id = ?
