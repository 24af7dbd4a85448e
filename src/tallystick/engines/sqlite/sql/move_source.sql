INSERT INTO sources (source, seq) VALUES (?, ?)
ON CONFLICT (source) DO UPDATE SET seq = excluded.seq
