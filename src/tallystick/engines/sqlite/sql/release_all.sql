-- Nobody else has the store open, so nobody holds a lease.
UPDATE leases SET host = NULL, pid = NULL, started = NULL, handle = NULL WHERE host IS NOT NULL
