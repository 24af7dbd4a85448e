INSERT INTO command_ranges (command, part, stream, first, last) VALUES (?, ?, ?, ?, ?)
