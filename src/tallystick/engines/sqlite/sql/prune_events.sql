DELETE FROM events WHERE stream = ? AND seq <= ?
