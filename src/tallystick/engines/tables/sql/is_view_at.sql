SELECT 1 FROM views
WHERE projection = :projection AND epoch = :epoch AND position = :position AND drops = :drops AND live = :live
