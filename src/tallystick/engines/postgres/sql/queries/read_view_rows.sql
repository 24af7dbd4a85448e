-- The place first, then its rows: one statement, so that both are of one moment.
WITH place AS MATERIALIZED (
    SELECT number, projection, epoch, live, convert_to(definition, 'UTF8'), uuid_send(store_id), position, link_position,
        link, drops, checksum
    FROM tally.views
    WHERE projection = %(projection)s AND CASE WHEN %(epoch)s::bigint IS NULL THEN live ELSE epoch = %(epoch)s END
)
SELECT place.*, NULL::text COLLATE "C" AS key, NULL::bytea AS state, NULL::bytea AS mark,
    NULL::bytea AS checksum
FROM place
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, row.key, convert_to(row.state, 'UTF8'),
    row.mark, row.checksum
FROM (
    SELECT key, state, mark, checksum
    FROM tally.view_rows
    WHERE view = (SELECT number FROM place) AND key > %(after)s AND (%(until)s::text IS NULL OR key <= %(until)s)
        AND NOT dropped
    ORDER BY key
    LIMIT %(limit)s
) AS row
ORDER BY key NULLS FIRST
