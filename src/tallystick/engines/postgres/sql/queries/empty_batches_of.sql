DELETE FROM tally.batch_rows WHERE view IN (SELECT number FROM tally.views WHERE projection = %s)
