-- The last position that a cut or an erasure gives for its control fact, which may still be missing.
SELECT greatest(
    (SELECT coalesce(max(fact_position), 0) FROM tally.cuts),
    (SELECT coalesce(max(fact_position), 0) FROM tally.erasures)
)
