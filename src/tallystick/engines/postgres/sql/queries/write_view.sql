-- Compare, move, store and count in one statement. Of two sessions, the second waits for the first, and then finds that
-- the place has moved. `xmax` shows whether a row existed before: an upsert locks the row that it replaces.
WITH place AS MATERIALIZED (
    SELECT number FROM tally.views
    WHERE projection = %(projection)s AND epoch = %(epoch)s AND position = %(previous)s AND drops = %(drops)s
        AND live = %(live)s
    FOR UPDATE
), kept AS (
    INSERT INTO tally.view_rows AS stored (view, key, dropped, state, mark, checksum)
    SELECT place.number, given.key, false, given.state, given.mark, given.checksum
    FROM place, unnest(%(keys)s, %(states)s, %(marks)s, %(checks)s) AS given(key, state, mark, checksum)
    ON CONFLICT (view, key) DO UPDATE SET dropped = false, state = excluded.state, mark = excluded.mark,
        checksum = excluded.checksum
    RETURNING stored.xmax = 0 AS is_new
), gone AS (
    DELETE FROM tally.view_rows AS stored USING place WHERE stored.view = place.number AND stored.key = ANY (%(gone)s)
    RETURNING 1
)
UPDATE tally.views AS moved SET position = %(position)s, link_position = %(link_position)s, link = %(link)s,
    checksum = %(checksum)s,
    row_count = moved.row_count + (SELECT count(*) FROM kept WHERE is_new) - (SELECT count(*) FROM gone)
FROM place
WHERE moved.number = place.number
RETURNING moved.number
