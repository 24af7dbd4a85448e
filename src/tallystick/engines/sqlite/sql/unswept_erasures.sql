-- Erasures since the file was last rewritten: how many, and the fact of the newest.
SELECT count(*), coalesce(max(fact_position), 0)
FROM erasures
WHERE fact_position > (SELECT coalesce(max(fact_position), 0) FROM sweeps)
