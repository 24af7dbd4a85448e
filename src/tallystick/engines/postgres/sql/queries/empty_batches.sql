DELETE FROM tally.batch_rows WHERE view = %(number)s
