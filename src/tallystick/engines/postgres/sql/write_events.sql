SELECT tally.write_events(%s::text[], %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
