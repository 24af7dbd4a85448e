SELECT tally.erase(%s, %s, %s, %s, %s::uuid)
