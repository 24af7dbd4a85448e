DELETE FROM writers
