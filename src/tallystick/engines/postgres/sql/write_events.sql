SELECT tally.write_events(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
