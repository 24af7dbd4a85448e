-- As `matching`, for an item of a query that has no tags. Without types, every event matches. A pruned event whose type is
-- not known may have any. Only the indexes on (type, position) have the order of the comparisons with both: any other
-- one would be walked to its end for a type that is not there.
CREATE OR REPLACE FUNCTION tally.matching_types(types text[], after bigint, until bigint, of_org text, most bigint)
RETURNS bigint[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    of_type text;
    found bigint[] := '{}';
BEGIN
    IF types = '{}' THEN
        RETURN ARRAY(
            SELECT stored.position FROM tally.events AS stored
            WHERE stored.position > after AND stored.position <= until AND (of_org IS NULL OR stored.org = of_org)
            ORDER BY stored.position
            LIMIT most
        ) || ARRAY(
            SELECT gone.position FROM tally.pruned AS gone
            WHERE gone.position > after AND gone.position <= until AND (of_org IS NULL OR gone.org = of_org)
            ORDER BY gone.position
            LIMIT most
        );
    END IF;
    FOREACH of_type IN ARRAY types || NULL::text LOOP
        found := found || ARRAY(
            SELECT stored.position FROM tally.events AS stored
            WHERE (stored.type, stored.position) > (of_type, after)
                AND (stored.type, stored.position) <= (of_type, until) AND (of_org IS NULL OR stored.org = of_org)
            ORDER BY stored.type, stored.position
            LIMIT most
        ) || CASE WHEN of_type IS NULL THEN ARRAY(
            SELECT gone.position FROM tally.pruned AS gone
            WHERE gone.type IS NULL AND gone.position > after AND gone.position <= until
                AND (of_org IS NULL OR gone.org = of_org)
            ORDER BY gone.position
            LIMIT most
        ) ELSE ARRAY(
            SELECT gone.position FROM tally.pruned AS gone
            WHERE (gone.type, gone.position) > (of_type, after) AND (gone.type, gone.position) <= (of_type, until)
                AND (of_org IS NULL OR gone.org = of_org)
            ORDER BY gone.type, gone.position
            LIMIT most
        ) END;
    END LOOP;
    RETURN found;
END
$$;
