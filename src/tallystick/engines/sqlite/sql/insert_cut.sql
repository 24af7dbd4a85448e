INSERT INTO cuts (stream, through, link, first_position, last_position, count, org, fact_position)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
