UPDATE view_rows SET state = NULL, mark = x'', checksum = NULL WHERE projection = ? AND epoch = ? AND key = ?
