DELETE FROM views WHERE projection = :projection AND epoch = :epoch
