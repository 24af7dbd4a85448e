UPDATE views SET drops = drops + 1 WHERE projection = :projection
