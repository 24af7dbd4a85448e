UPDATE views SET row_count = (
    SELECT count(*) FROM view_rows AS kept WHERE kept.projection = views.projection AND kept.epoch = views.epoch
)
