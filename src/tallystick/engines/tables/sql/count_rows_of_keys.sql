SELECT count(*) FROM view_rows WHERE projection = ? AND epoch = ? AND key IN ({keys})
