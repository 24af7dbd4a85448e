-- A standby has a timeline of its own once it is promoted.
SELECT system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
FROM pg_control_system()
WHERE NOT pg_is_in_recovery()
