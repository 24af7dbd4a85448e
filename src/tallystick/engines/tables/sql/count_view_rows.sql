-- What was counted, what is there, and how many have a state. A row that lost it without being dropped does not count.
SELECT row_count, count(kept.key) FILTER (WHERE (state IS NULL) = (kept.checksum IS NULL)), count(*) FILTER (WHERE state IS NOT NULL)
FROM views LEFT JOIN view_rows AS kept ON kept.projection = views.projection AND kept.epoch = views.epoch
WHERE views.projection = :projection AND views.epoch = :epoch
