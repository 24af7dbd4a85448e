SELECT count(*) FROM (
    SELECT 1 FROM event_tags WHERE tag = :tag AND type = :type AND position > :after AND position <= :until LIMIT :most
)
