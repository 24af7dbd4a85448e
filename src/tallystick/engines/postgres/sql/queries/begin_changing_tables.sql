SELECT tally.lock_tables_to_change()
