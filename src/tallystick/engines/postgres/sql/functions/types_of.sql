-- The types of the events that have a tag, without a look at each of its postings.
CREATE OR REPLACE FUNCTION tally.types_of(of_tag text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found text[] := '{}';
    next text COLLATE "C" := '';
BEGIN
    LOOP
        SELECT type INTO next FROM tally.event_tags WHERE tag = of_tag AND type > next ORDER BY type LIMIT 1;
        EXIT WHEN next IS NULL;
        found := found || next;
    END LOOP;
    RETURN found;
END
$$;
