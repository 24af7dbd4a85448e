SELECT tally.write_stream(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
