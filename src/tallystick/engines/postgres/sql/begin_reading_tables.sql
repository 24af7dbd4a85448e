SELECT set_config('search_path', 'tally_views, public', true), pg_advisory_xact_lock_shared(1952541804, 5)
