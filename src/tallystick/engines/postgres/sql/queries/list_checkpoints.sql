SELECT name FROM tally.checkpoints ORDER BY name
