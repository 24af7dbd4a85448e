DELETE FROM tally.view_rows AS stored USING tally.batch_rows AS row
WHERE row.view = %(number)s AND row.batch = %(batch)s AND row.state IS NULL
    AND stored.view = row.view AND stored.key = row.key
