UPDATE view_rows SET state = NULL, mark = x''
WHERE projection = :projection AND key IN (SELECT value FROM json_each(:keys))
