SELECT set_config('role', 'tally_maintenance', true)
