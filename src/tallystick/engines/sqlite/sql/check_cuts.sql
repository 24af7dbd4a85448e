-- Cuts that no control fact names, that do not grow, or whose events still exist.
SELECT stream, through, 'no control fact at position ' || fact_position || ' names this cut'
FROM cuts
WHERE NOT EXISTS (
    SELECT 1 FROM events AS fact
    WHERE fact.position = cuts.fact_position AND fact.type = 'tally.pruned'
        AND instr(CAST(fact.payload AS TEXT), '"stream":"' || cuts.stream || '"') > 0
        AND instr(CAST(fact.payload AS TEXT), '"link":"' || lower(hex(cuts.link)) || '"') > 0
        AND instr(replace(CAST(fact.payload AS TEXT), '}', ','), '"through":' || cuts.through || ',') > 0
)
UNION ALL
SELECT stream, through, 'it does not lie behind the cut before it'
FROM (
    SELECT stream, through, last_position, count, first_position,
        lag(last_position) OVER earlier AS last_before,
        lag(count) OVER earlier AS count_before,
        lag(first_position) OVER earlier AS first_before
    FROM cuts
    WINDOW earlier AS (PARTITION BY stream ORDER BY through)
)
WHERE last_before >= last_position OR count_before >= count OR first_before <> first_position
UNION ALL
SELECT cuts.stream, cuts.through, 'it is pruned, but seq ' || events.seq || ' is still there'
FROM cuts
JOIN events ON events.stream = cuts.stream AND events.seq <= cuts.through
