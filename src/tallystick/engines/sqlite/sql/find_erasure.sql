SELECT position FROM erasures WHERE position = ?
