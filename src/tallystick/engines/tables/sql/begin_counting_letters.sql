INSERT INTO kept_counts (what, number) SELECT 'dead_letters', count(*) FROM dead_letters
