-- The last position that has, or will have, a control fact that names a cut or an erasure.
SELECT max(
    (SELECT coalesce(max(fact_position), 0) FROM cuts),
    (SELECT coalesce(max(fact_position), 0) FROM erasures)
)
