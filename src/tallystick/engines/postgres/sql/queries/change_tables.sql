SELECT set_config('search_path', 'tally_views, pg_temp', true), set_config('role', 'tally_projector', true)
