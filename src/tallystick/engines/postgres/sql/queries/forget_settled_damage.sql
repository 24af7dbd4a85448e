SELECT tally.forget_settled_damage()
