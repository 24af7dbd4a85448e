"""What verification looks at: buckets, pieces of the log, chains, signatures and control facts."""
