INSERT INTO writers (host, pid, started, handle, opened_at) VALUES (?, ?, ?, ?, ?)
