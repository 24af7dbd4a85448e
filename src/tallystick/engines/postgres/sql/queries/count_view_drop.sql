UPDATE tally.views SET drops = CASE WHEN drops < 9223372036854775807 THEN drops + 1 ELSE 0 END
WHERE projection = %s
