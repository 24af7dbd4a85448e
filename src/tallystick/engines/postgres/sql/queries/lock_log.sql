SELECT tally.lock_log()
