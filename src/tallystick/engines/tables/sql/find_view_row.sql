SELECT key, state, mark FROM view_rows WHERE projection = ? AND epoch = ? AND key = ?
