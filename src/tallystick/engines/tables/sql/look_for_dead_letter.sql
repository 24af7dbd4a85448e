-- Through the whole table, whatever order its rows are in.
SELECT 1 FROM dead_letters WHERE +consumer = ? AND +position = ?
