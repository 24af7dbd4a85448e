SELECT tally.prune(%s, %s, %s, %s, %s, %s, %s, %s::uuid)
