UPDATE dead_letters SET attempts = ?6, parked = ?7, reason = ?8 WHERE consumer = ?1 AND position = ?2
