DELETE FROM commands
WHERE number IN (SELECT number FROM commands WHERE recorded < ? ORDER BY recorded LIMIT ?)
