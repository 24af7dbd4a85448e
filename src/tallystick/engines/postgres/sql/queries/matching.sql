SELECT tally.matching(%s::jsonb, %s, NULL, %s, %s)
