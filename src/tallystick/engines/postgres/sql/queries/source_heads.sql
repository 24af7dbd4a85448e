SELECT org, source, seq FROM tally.heads_of_sources(%s::text[], %s::text[])
