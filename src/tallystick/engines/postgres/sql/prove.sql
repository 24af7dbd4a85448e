SELECT head, pending, holders FROM tally.prove(%s::bigint, %s::bigint, %s::text[])
