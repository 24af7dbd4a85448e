INSERT INTO views (projection, epoch, live, definition, store_id, position, link_position, link, drops)
VALUES (:projection, :epoch, :live, :definition, :store_id, :position, :link_position, :link, :drops)
ON CONFLICT DO NOTHING
