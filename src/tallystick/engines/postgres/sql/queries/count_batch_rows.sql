SELECT count(*) FROM tally.batch_rows WHERE view = %(number)s AND batch = %(batch)s
