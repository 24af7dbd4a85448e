UPDATE views SET position = :position, link_position = :link_position, link = :link, checksum = :checksum
WHERE projection = :projection AND epoch = :epoch AND position = :previous AND drops = :drops AND live = :live
