INSERT INTO streams (stream, seq, link, org) VALUES (?, ?, ?, ?)
ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, link = excluded.link, org = excluded.org
