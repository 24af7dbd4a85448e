SELECT coalesce(max(last_position), 0) FROM tally.cuts
