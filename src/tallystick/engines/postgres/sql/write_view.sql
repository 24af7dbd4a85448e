-- Compare, move and store in one statement. Whoever is second waits for the first, and then finds the place elsewhere.
WITH moved AS (
    UPDATE tally.views SET position = %(position)s, link_position = %(link_position)s, link = %(link)s, checksum = %(checksum)s
    WHERE projection = %(projection)s AND epoch = %(epoch)s AND position = %(previous)s AND drops = %(drops)s
    RETURNING number
), kept AS (
    INSERT INTO tally.view_rows AS stored (view, key, dropped, state, mark, checksum)
    SELECT moved.number, given.key, false, given.state, given.mark, given.checksum
    FROM moved, unnest(%(keys)s, %(states)s, %(marks)s, %(checks)s) AS given(key, state, mark, checksum)
    ON CONFLICT (view, key) DO UPDATE SET dropped = false, state = excluded.state, mark = excluded.mark,
        checksum = excluded.checksum
), gone AS (
    DELETE FROM tally.view_rows AS stored USING moved WHERE stored.view = moved.number AND stored.key = ANY (%(gone)s)
)
SELECT number FROM moved
