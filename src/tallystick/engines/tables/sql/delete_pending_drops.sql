DELETE FROM pending_drops WHERE position = ?
