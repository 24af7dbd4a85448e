INSERT INTO skipped (first, last) VALUES (?, ?)
