SELECT name FROM checkpoints ORDER BY name
