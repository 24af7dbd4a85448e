DELETE FROM tally.checkpoints WHERE name = %s
