SELECT key, state, mark, checksum FROM view_rows WHERE projection = ? AND epoch = ? AND key = ?
