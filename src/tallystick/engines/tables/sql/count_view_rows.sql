-- The recorded number of rows, the number found, and how many have a state. A row whose state vanished is not found.
SELECT row_count, count(kept.key) FILTER (WHERE (state IS NULL) = (kept.checksum IS NULL)),
    count(*) FILTER (WHERE state IS NOT NULL)
FROM views LEFT JOIN view_rows AS kept ON kept.projection = views.projection AND kept.epoch = views.epoch
WHERE views.projection = :projection AND views.epoch = :epoch
