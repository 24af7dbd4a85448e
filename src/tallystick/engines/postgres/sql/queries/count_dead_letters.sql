-- What was counted first, under no name; then what each consumer has. One statement, so both are of one moment. A session
-- of one org may not see the letters, nor how many there are.
SELECT NULL::text AS consumer, CASE WHEN nullif(current_setting('tally.org', true), '') IS NULL
    THEN (SELECT number FROM tally.kept_counts WHERE what = 'dead_letters')
    ELSE (SELECT count(*) FROM tally.dead_letters)
END
UNION ALL
SELECT consumer, count(*) FROM tally.dead_letters GROUP BY consumer
ORDER BY consumer NULLS FIRST
