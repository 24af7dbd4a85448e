SELECT what, reason, position, stream, seq FROM tally.known_damage(%s)
