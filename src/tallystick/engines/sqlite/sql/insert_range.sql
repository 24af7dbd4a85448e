INSERT INTO command_ranges (command, part, stream, first, last, first_position, last_position, link)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
