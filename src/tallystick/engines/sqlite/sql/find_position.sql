SELECT position FROM events WHERE stream = ? AND seq = ?
