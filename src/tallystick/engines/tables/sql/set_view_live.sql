UPDATE views SET live = :live WHERE projection = :projection AND epoch = :epoch
