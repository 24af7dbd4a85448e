SELECT tally.settle_damage(%s)
