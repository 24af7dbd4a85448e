SELECT host, pid, started, handle FROM writers
