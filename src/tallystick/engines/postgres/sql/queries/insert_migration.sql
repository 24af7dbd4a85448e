INSERT INTO tally.migrations (number, name) VALUES (%s, %s)
