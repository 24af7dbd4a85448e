INSERT INTO pruned (position, id, type, org) VALUES (?, ?, ?, ?)
