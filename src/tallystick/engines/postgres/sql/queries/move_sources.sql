SELECT tally.move_sources(%s::text[], %s::text[], %s::bigint[])
