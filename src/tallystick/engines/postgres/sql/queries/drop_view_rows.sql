UPDATE tally.view_rows SET dropped = true, state = NULL, mark = '', checksum = NULL
WHERE view IN (SELECT number FROM tally.views WHERE projection = %s) AND key = ANY (%s)
