UPDATE views SET position = -1, live = 0 WHERE projection = :projection AND epoch = :epoch AND (live = 0 OR :live)
