SELECT pg_advisory_xact_lock(1952541804, 4)
