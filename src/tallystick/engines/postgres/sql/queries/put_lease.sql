SELECT tally.put_lease(%s, %s, %s, %s, %s, %s)
