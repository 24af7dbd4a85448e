SELECT status, seq, position, link, org
FROM tally.append_event(%s, %s, %s, %s, %s::uuid, %s, %s, %s, %s, %s, %s, %s, %s)
