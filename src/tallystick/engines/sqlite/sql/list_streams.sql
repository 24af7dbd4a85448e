SELECT stream, seq, link, org FROM streams WHERE stream > ? ORDER BY stream LIMIT ?
