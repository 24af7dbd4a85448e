SELECT set_config('role', 'tally_reader', true), set_config('tally.org', %s, true)
