DELETE FROM views WHERE projection = :projection AND epoch = :epoch AND position = -1
