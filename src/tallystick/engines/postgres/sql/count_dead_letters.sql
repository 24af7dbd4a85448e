-- What was counted first, under no name; then what each consumer has. One statement, so both are of one moment.
SELECT NULL::text AS consumer, (SELECT number FROM tally.kept_counts WHERE what = 'dead_letters')
UNION ALL
SELECT consumer, count(*) FROM tally.dead_letters GROUP BY consumer
ORDER BY consumer NULLS FIRST
