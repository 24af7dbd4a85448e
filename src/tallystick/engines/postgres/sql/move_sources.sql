SELECT tally.move_sources(%s::text[], %s::bigint[])
