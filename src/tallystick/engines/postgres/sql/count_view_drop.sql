UPDATE tally.views SET drops = drops + 1 WHERE projection = %s
