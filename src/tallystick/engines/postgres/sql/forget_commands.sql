SELECT tally.forget_commands(%s::text[], %s::text[], %s::text[], %s::text[])
