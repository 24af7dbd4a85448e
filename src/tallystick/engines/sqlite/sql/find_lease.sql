SELECT stream, number, host, pid, started, handle FROM leases WHERE stream = ?
