SELECT tally.begin_condition(%s::jsonb, %s::text[])
