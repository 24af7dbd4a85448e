SELECT to_regclass('tally_views.run_steps') IS NOT NULL
