SELECT tally.write_batch(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
