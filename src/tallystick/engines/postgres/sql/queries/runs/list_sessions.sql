SELECT * FROM sessions ORDER BY id
