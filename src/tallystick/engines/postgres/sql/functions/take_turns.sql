-- Lock streams in one order, so that no two commits wait for each other. A caller that judged before has the locks
-- already.
CREATE OR REPLACE FUNCTION tally.take_turns(streams text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key integer;
BEGIN
    IF cardinality(streams) > 1000 THEN
        LOCK TABLE tally_locks.appending IN SHARE ROW EXCLUSIVE MODE;
        RETURN;
    END IF;
    FOR key IN SELECT DISTINCT hashtext(name) FROM unnest(streams) AS name ORDER BY 1 LOOP
        PERFORM tally.take_turn(1952541811, key);
    END LOOP;
END
$$;
