SELECT tally.drop_snapshots(%s, %s)
