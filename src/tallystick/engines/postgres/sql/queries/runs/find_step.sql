SELECT coalesce(max(number), 0) FROM run_steps
