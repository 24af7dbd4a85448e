SELECT projection, epoch, live, definition, store_id, position, link_position, link, drops, checksum FROM views
ORDER BY projection, epoch
