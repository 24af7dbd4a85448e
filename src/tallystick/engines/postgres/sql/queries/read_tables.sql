SELECT set_config('search_path', 'tally_views, pg_temp', true)
