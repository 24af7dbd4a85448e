SELECT position FROM pruned WHERE position BETWEEN ? AND ?
