INSERT INTO views (projection, epoch, live, definition, store_id, position, link_position, link, drops, checksum)
VALUES (:projection, :epoch, :live, :definition, :store_id, :position, :link_position, :link, :drops, :checksum)
ON CONFLICT DO NOTHING
