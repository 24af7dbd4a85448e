SELECT projection, epoch, live, definition, store_id, position, link_position, link, drops, checksum FROM views
WHERE projection = :projection AND live = 1
