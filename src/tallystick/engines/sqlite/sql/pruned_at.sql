SELECT count(*) FROM json_each(?) AS wanted CROSS JOIN pruned ON pruned.position = wanted.value
