SELECT 1 FROM event_tags WHERE tag = ? AND type = ? AND position = ? AND org IS ?
