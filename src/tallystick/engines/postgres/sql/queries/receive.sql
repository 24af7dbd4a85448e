SELECT tally.receive(%s::json, %s)
