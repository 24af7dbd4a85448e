INSERT INTO run_steps VALUES (%s, %s)
