INSERT INTO kept_counts (what, number) SELECT 'dead_letters', count(*) FROM dead_letters WHERE true
ON CONFLICT (what) DO UPDATE SET number = excluded.number
