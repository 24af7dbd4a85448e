DELETE FROM checkpoints WHERE name = ?
