INSERT INTO sweeps (fact_position, swept_at) VALUES (?, ?)
ON CONFLICT (fact_position) DO NOTHING
