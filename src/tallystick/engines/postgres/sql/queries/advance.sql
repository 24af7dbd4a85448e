SELECT tally.advance()
