DELETE FROM tally.dead_letters WHERE consumer = %s AND position = %s RETURNING position
