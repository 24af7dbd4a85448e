UPDATE tally.views SET position = -1, live = false
WHERE projection = %(projection)s AND epoch = %(epoch)s AND (NOT live OR %(live)s)
RETURNING number
