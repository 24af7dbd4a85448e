SELECT max(seq) FROM (
    SELECT seq FROM org_sources WHERE org = ?1 AND source = ?2
    UNION ALL
    SELECT seq FROM sources WHERE source = ?2
)
