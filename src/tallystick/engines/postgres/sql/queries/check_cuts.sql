-- Cuts that no control fact names or that do not grow, pruned ids that are still stored, and too few pruned events.
SELECT 'cut', 'no control fact at position ' || fact_position || ' names this cut', 0, stream, through
FROM tally.cuts
WHERE NOT EXISTS (
    SELECT FROM tally.events AS fact
    WHERE fact.position = cuts.fact_position AND fact.type = 'tally.pruned' AND starts_with(fact.stream, 'tally.')
        AND (fact.payload::jsonb ->> 'stream', fact.payload::jsonb ->> 'through', fact.payload::jsonb ->> 'link')
            = (cuts.stream, cuts.through::text, encode(cuts.link, 'hex'))
)
UNION ALL
SELECT 'cut', 'it does not follow the previous cut', 0, stream, through
FROM (
    SELECT stream, through, last_position, first_position,
        lag(last_position) OVER earlier AS last_before,
        lag(first_position) OVER earlier AS first_before
    FROM tally.cuts
    WINDOW earlier AS (PARTITION BY stream ORDER BY through)
) AS rising
WHERE last_before >= last_position OR first_before <> first_position
UNION ALL
SELECT 'cut', 'its id was pruned, and must not be recorded again', events.position, stream, seq
FROM tally.pruned JOIN tally.events USING (id)
UNION ALL
SELECT 'cut', ids || ' events are recorded as pruned, but the cuts say ' || cut, 0, '', 0
FROM (SELECT count(*) AS ids FROM tally.pruned) AS noted,
    (SELECT coalesce(sum(through), 0) AS cut FROM (
        SELECT max(through) AS through FROM tally.cuts GROUP BY stream
    ) AS latest) AS said
WHERE ids <> cut AND nullif(current_setting('tally.org', true), '') IS NULL
