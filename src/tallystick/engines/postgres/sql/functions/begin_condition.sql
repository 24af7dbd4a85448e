-- Lock what conditions ask for, together with the tags of the events that the commit will write. Any event that an item
-- of a query matches has all of its tags, so a lock on one of them is enough. A caller that asks for items without tags,
-- or for more than 64, has locked the whole log.
CREATE OR REPLACE FUNCTION tally.begin_condition(items jsonb, own text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
    PERFORM tally.require_safe();
    IF jsonb_array_length(items) > 64 THEN
        RAISE EXCEPTION 'more than 64 items of conditions: lock the log instead' USING ERRCODE = 'TL409';
    END IF;
    LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
    PERFORM tally.lock_tags(own, ARRAY(
        SELECT tally.quietest_tag(ARRAY(SELECT jsonb_array_elements_text(item -> 'tags')))
        FROM jsonb_array_elements(items) AS item
    ));
END
$$;

GRANT EXECUTE ON FUNCTION tally.begin_condition TO tally_app, tally_maintenance;
