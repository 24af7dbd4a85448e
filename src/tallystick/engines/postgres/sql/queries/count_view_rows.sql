-- The place, the recorded count, the number of rows, and how many have a state, all of one moment.
SELECT projection, epoch, live, convert_to(definition, 'UTF8'), uuid_send(store_id), position, link_position, link,
    drops, checksum, row_count, kept.number, kept.served
FROM tally.views, LATERAL (
    SELECT count(*) FILTER (WHERE row.dropped = (row.checksum IS NULL)) AS number, count(row.state) AS served
    FROM tally.view_rows AS row WHERE row.view = views.number
) AS kept
WHERE projection = %(projection)s AND CASE WHEN %(epoch)s::bigint IS NULL THEN live ELSE epoch = %(epoch)s END
