SELECT to_regclass('tally.migrations') IS NOT NULL
