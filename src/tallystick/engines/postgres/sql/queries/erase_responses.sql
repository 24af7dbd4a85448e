SELECT tally.erase_responses(%s::text[], %s::text[], %s::text[], %s::text[])
