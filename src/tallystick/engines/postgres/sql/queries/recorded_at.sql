SELECT recorded FROM tally.events WHERE position = %s
