WITH gone AS (
    DELETE FROM tally.dead_letters WHERE consumer = %s AND position = %s RETURNING position
), counted AS (
    UPDATE tally.kept_counts SET number = number - 1 WHERE what = 'dead_letters' AND EXISTS (SELECT 1 FROM gone)
)
SELECT position FROM gone
