SELECT stream, first, last, first_position, last_position, link FROM command_ranges WHERE command = ? ORDER BY part
