-- That of some tags whose newest event is the oldest: a lock on it is the least likely to be waited for.
CREATE OR REPLACE FUNCTION tally.quietest_tag(tags text[]) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF cardinality(tags) = 1 THEN
        RETURN tags[1];
    END IF;
    RETURN (
        SELECT given
        FROM unnest(tags) AS given
        ORDER BY (
            SELECT max((
                SELECT position FROM tally.event_tags WHERE tag = given AND type = known ORDER BY position DESC LIMIT 1
            ))
            FROM unnest(tally.types_of(given)) AS known
        ) NULLS FIRST, given
        LIMIT 1
    );
END
$$;
