DELETE FROM dead_letters WHERE consumer = ? AND position = ?
