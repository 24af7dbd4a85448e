INSERT INTO erasures (position, stream, seq, checksum, fact_position) VALUES (?, ?, ?, ?, ?)
