SELECT count(*) FROM pruned WHERE position BETWEEN ? AND ?
