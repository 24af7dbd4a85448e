-- A scan of the whole table, in any order of its rows.
SELECT 1 FROM dead_letters WHERE +consumer = ? AND +position = ?
