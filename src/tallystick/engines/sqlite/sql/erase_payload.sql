UPDATE events SET payload = NULL WHERE position = ?
