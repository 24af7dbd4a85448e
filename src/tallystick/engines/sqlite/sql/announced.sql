-- The last position at which a control fact that names a cut or an erasure stands, or will.
SELECT max(
    (SELECT coalesce(max(fact_position), 0) FROM cuts),
    (SELECT coalesce(max(fact_position), 0) FROM erasures)
)
