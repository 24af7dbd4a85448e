SELECT stream, first, last FROM command_ranges WHERE command = ? ORDER BY part
