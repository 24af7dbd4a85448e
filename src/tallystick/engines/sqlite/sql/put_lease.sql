INSERT INTO leases (stream, number, host, pid, started, handle) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (stream) DO UPDATE SET number = excluded.number, host = excluded.host, pid = excluded.pid,
    started = excluded.started, handle = excluded.handle
