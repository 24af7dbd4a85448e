DELETE FROM writers WHERE handle = ?
