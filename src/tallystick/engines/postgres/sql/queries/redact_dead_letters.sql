UPDATE tally.dead_letters SET reason = %s WHERE position = %s RETURNING position
