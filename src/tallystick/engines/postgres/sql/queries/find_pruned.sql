SELECT id FROM tally.pruned_with(%s)
