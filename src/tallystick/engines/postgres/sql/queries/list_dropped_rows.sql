SELECT key FROM tally.view_rows
WHERE view = (SELECT number FROM tally.views WHERE projection = %s AND epoch = %s) AND dropped
ORDER BY key LIMIT %s
