SELECT tally.keep_damage(%s, %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bigint[])
