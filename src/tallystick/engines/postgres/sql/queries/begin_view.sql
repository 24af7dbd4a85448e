INSERT INTO tally.views (projection, epoch, live, definition, store_id, position, link_position, link, drops, checksum)
VALUES (%(projection)s, %(epoch)s, %(live)s, convert_from(%(definition)s, 'UTF8'), encode(%(store_id)s, 'hex')::uuid,
    %(position)s, %(link_position)s, %(link)s, %(drops)s, %(checksum)s)
ON CONFLICT DO NOTHING
RETURNING epoch
