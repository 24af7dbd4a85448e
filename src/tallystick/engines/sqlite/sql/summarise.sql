-- A missing payload must have an erasure, and an existing one must match its checksum.
SELECT key, win, min(position), min(refused), min(unsound)/* the aggregates */
FROM (
    SELECT */* the ranks */
    FROM (
        SELECT position, key, win, unsound, /* the values */
        FROM (
            SELECT
                position,
                type,
                CASE
                    WHEN payload IS NULL AND position NOT IN (SELECT position FROM erasures) THEN position
                    WHEN payload IS NOT NULL AND sha256(payload) IS NOT checksum THEN position
                END AS unsound,
                /* the fields */
            FROM events
            WHERE position <= :until AND +type IN (SELECT value FROM json_each(:types))
                AND (payload IS NOT NULL OR :erased OR position NOT IN (SELECT position FROM erasures))
        )
    )
)
GROUP BY key, win
