SELECT tally.declare_infrastructure(%s::text[])
