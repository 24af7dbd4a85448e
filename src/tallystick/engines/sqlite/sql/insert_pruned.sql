INSERT INTO pruned (position, id) VALUES (?, ?)
