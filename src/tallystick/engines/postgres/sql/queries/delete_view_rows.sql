DELETE FROM tally.view_rows WHERE view = %(number)s AND key IN (
    SELECT key FROM tally.view_rows WHERE view = %(number)s LIMIT %(limit)s
)
