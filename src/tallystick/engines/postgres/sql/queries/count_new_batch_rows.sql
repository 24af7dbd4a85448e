SELECT count(*) FROM tally.batch_rows AS new
WHERE view = %(number)s AND batch = %(batch)s AND state IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM tally.view_rows AS stored WHERE stored.view = new.view AND stored.key = new.key
)
