SELECT tally.keep_snapshot(%s::uuid, %s, %s, %s, %s, %s, %s, %s, %s, %s::uuid, %s, %s, %s)
