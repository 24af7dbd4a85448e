-- A missing payload must be recorded as erased; any other must match its checksum. OFFSET 0 makes PostgreSQL look into
-- each payload once. The answer is empty if a part of the log was pruned: both are seen with one snapshot.
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
                    WHEN payload IS NULL AND NOT noted THEN position
                    WHEN payload IS NOT NULL AND sha256(convert_to(payload, 'UTF8')) <> checksum THEN position
                END AS unsound,
                /* the fields */
            FROM (
                SELECT *, payload::json AS body, %(hidden)s OR EXISTS (
                    SELECT FROM tally.erasures WHERE erasures.position = events.position
                ) AS noted
                FROM tally.events
                WHERE position <= %(until)s AND type = ANY (%(types)s::text[])
                    AND NOT EXISTS (SELECT FROM tally.cuts)
            ) AS stored
            WHERE payload IS NOT NULL OR %(erased)s OR NOT noted
            OFFSET 0
        ) AS looked_into
        OFFSET 0
    ) AS judged
) AS ranked
GROUP BY key, win
