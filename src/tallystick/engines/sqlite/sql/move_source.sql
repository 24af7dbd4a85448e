INSERT INTO org_sources (org, source, seq) VALUES (?, ?, ?)
ON CONFLICT (org, source) DO UPDATE SET seq = excluded.seq
