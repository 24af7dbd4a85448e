SELECT pg_advisory_xact_lock_shared(1952541804, 5)
