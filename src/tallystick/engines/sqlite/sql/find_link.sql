SELECT link FROM events WHERE stream = ? AND seq = ?
