-- Lock tags for the rest of the transaction: those of new events, shared, and those of conditions, for this commit alone.
-- Different tags may have one hash, so the modes are merged by hash: a lock that became exclusive later could deadlock.
CREATE OR REPLACE FUNCTION tally.lock_tags(own text[], asked text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_large boolean := cardinality(own) > 64;
    turn record;
BEGIN
    IF is_large AND asked <> '{}' THEN
        LOCK TABLE tally_locks.tag_gate IN SHARE ROW EXCLUSIVE MODE;
    ELSIF is_large THEN
        LOCK TABLE tally_locks.tag_gate IN SHARE MODE;
    ELSIF asked <> '{}' THEN
        LOCK TABLE tally_locks.tag_gate IN ROW EXCLUSIVE MODE;
    END IF;
    FOR turn IN
        SELECT hashtext(tag) AS key, bool_and(is_own) AS shared
        FROM (
            SELECT tag, true FROM unnest(CASE WHEN is_large THEN '{}' ELSE own END) AS tag
            UNION ALL
            SELECT tag, false FROM unnest(asked) AS tag
        ) AS each(tag, is_own)
        GROUP BY 1
        ORDER BY 1
    LOOP
        PERFORM tally.take_turn(1952541813, turn.key, turn.shared);
    END LOOP;
END
$$;
