UPDATE tally.views SET position = %(position)s, link_position = %(link_position)s, link = %(link)s,
    checksum = %(checksum)s
WHERE projection = %(projection)s AND epoch = %(epoch)s AND position = %(previous)s AND drops = %(drops)s
    AND live = %(live)s
RETURNING number
