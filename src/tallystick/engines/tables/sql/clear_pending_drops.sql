DELETE FROM pending_drops
