-- The last position at which a control fact that names a cut or an erasure stands, or will.
SELECT greatest(
    (SELECT coalesce(max(fact_position), 0) FROM tally.cuts),
    (SELECT coalesce(max(fact_position), 0) FROM tally.erasures)
)
