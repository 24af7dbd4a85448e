-- First the recorded count, under no name, then the letters of each consumer. One statement, so that both are of one
-- moment. A session with an org may see neither the letters nor their number.
SELECT NULL::text AS consumer, CASE WHEN nullif(current_setting('tally.org', true), '') IS NULL
    THEN (SELECT number FROM tally.kept_counts WHERE what = 'dead_letters')
    ELSE (SELECT count(*) FROM tally.dead_letters)
END
UNION ALL
SELECT consumer, count(*) FROM tally.dead_letters GROUP BY consumer
ORDER BY consumer NULLS FIRST
