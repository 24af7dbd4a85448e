SELECT stream, number, host, pid, started, handle FROM tally.leases_of(%s::text[])
