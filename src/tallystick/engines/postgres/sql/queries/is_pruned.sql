SELECT EXISTS (SELECT FROM tally.pruned WHERE id = %s::uuid)
