-- As in `write_view`, `xmax` shows whether the letter existed before.
WITH stored AS (
    INSERT INTO tally.dead_letters AS letter (consumer, position, stream, seq, type, attempts, parked, reason)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (position, consumer) DO UPDATE SET
        attempts = excluded.attempts, parked = excluded.parked, reason = excluded.reason
    RETURNING position, letter.xmax = 0 AS is_new
), counted AS (
    UPDATE tally.kept_counts SET number = number + 1
    WHERE what = 'dead_letters' AND EXISTS (SELECT 1 FROM stored WHERE is_new)
)
SELECT position FROM stored
