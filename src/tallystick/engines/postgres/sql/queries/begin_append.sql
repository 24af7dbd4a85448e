SELECT stream, seq, link, org, foreign_org FROM tally.begin_append(%s::text[], %s::text[])
