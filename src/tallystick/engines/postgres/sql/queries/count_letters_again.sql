INSERT INTO tally.kept_counts AS counted (what, number) SELECT 'dead_letters', count(*) FROM tally.dead_letters
ON CONFLICT (what) DO UPDATE SET number = excluded.number
RETURNING number
