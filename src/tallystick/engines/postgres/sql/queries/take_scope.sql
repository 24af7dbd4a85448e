SELECT pg_postmaster_start_time(), set_config('role', %(role)s, true), set_config('tally.org', %(org)s, true),
    set_config('search_path', %(search_path)s, true), set_config('lock_timeout', %(lock_timeout)s, true)
