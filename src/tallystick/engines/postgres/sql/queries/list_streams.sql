SELECT stream, seq, link, org FROM tally.streams WHERE stream > %s ORDER BY stream LIMIT %s
