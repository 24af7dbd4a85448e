SELECT recorded FROM events WHERE position = ?
