INSERT INTO pruned_tags (position, tag) VALUES (?, ?)
