SELECT kind FROM tally.infrastructure
