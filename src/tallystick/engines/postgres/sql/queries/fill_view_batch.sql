-- The lock admits other tasks of the batch, and keeps the place from moving until this statement is committed.
WITH place AS MATERIALIZED (
    SELECT number FROM tally.views
    WHERE projection = %(projection)s AND epoch = %(epoch)s AND position = %(position)s AND drops = %(drops)s
        AND live = %(live)s
    FOR SHARE
), filled AS (
    INSERT INTO tally.batch_rows AS stored (view, batch, key, state, mark, checksum)
    SELECT place.number, %(batch)s, given.key, given.state, given.mark, given.checksum
    FROM place, unnest(%(keys)s, %(states)s, %(marks)s, %(checks)s) AS given(key, state, mark, checksum)
    UNION ALL
    SELECT place.number, %(batch)s, given.key, NULL, '', NULL FROM place, unnest(%(gone)s) AS given(key)
    ORDER BY 3
    ON CONFLICT (view, batch, key) DO UPDATE SET state = excluded.state, mark = excluded.mark,
        checksum = excluded.checksum
)
SELECT number FROM place
