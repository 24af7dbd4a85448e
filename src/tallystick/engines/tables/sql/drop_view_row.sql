UPDATE view_rows SET state = NULL, mark = x'' WHERE projection = ? AND epoch = ? AND key = ?
