INSERT INTO event_tags (tag, type, position, org) VALUES (?, ?, ?, ?)
