-- Compare, move and store in one statement. Whoever is second waits for the first, and then finds the place elsewhere.
WITH moved AS (
    UPDATE tally.views SET position = %(position)s, link_position = %(link_position)s, link = %(link)s
    WHERE projection = %(projection)s AND epoch = %(epoch)s AND position = %(previous)s AND drops = %(drops)s
    RETURNING number
), kept AS (
    INSERT INTO tally.view_rows AS stored (view, key, dropped, state, mark)
    SELECT moved.number, given.key, false, given.state, given.mark
    FROM moved, unnest(%(keys)s, %(states)s, %(marks)s) AS given(key, state, mark)
    ON CONFLICT (view, key) DO UPDATE SET dropped = false, state = excluded.state, mark = excluded.mark
), gone AS (
    DELETE FROM tally.view_rows AS stored USING moved WHERE stored.view = moved.number AND stored.key = ANY (%(gone)s)
)
SELECT number FROM moved
