-- Append one event in one round trip, unless more than `beyond` events after the position `after` match the items. The
-- `status` is as in append_event, or `unless`: then `position` is that of the first event too many. Conditions on events
-- without tags lock the whole log.
CREATE OR REPLACE FUNCTION tally.append_unless(
    to_stream text, expected bigint, new_type text, new_version integer, new_id uuid, new_time bigint,
    new_payload text, new_meta text, new_signature bytea, new_recorded bigint, id_given boolean,
    lease_handle text, lease_number bigint, items jsonb, after bigint, beyond bigint, of_org text,
    OUT status text, OUT seq bigint, OUT "position" bigint, OUT link bytea, OUT org text
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF EXISTS (SELECT FROM jsonb_array_elements(items) AS item WHERE jsonb_array_length(item -> 'tags') = 0)
        OR jsonb_array_length(items) > 64 THEN
        LOCK TABLE tally_locks.appending IN SHARE ROW EXCLUSIVE MODE;
        PERFORM tally.take_turn(1952541811, hashtext(to_stream));
    ELSE
        LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
        PERFORM tally.take_turn(1952541811, hashtext(to_stream));
        PERFORM tally.begin_condition(items, coalesce(tally.tags_of(new_meta), '{}'));
    END IF;
    PERFORM tally.require_safe();
    IF id_given THEN
        IF EXISTS (SELECT FROM tally.events AS stored WHERE stored.id = new_id) THEN
            status := 'judge';
            RETURN;
        END IF;
        IF EXISTS (SELECT FROM tally.pruned AS gone WHERE gone.id = new_id) THEN
            status := 'judge';
            RETURN;
        END IF;
    END IF;
    SELECT matched INTO position
    FROM tally.matching(items, after, NULL, of_org, beyond + 1) AS matched
    OFFSET beyond
    LIMIT 1;
    IF position IS NOT NULL THEN
        status := 'unless';
        RETURN;
    END IF;
    SELECT done.status, done.seq, done.position, done.link, done.org INTO status, seq, position, link, org
    FROM tally.append_event(
        to_stream, expected, new_type, new_version, new_id, new_time, new_payload, new_meta, new_signature,
        new_recorded, id_given, lease_handle, lease_number
    ) AS done;
END
$$;

GRANT EXECUTE ON FUNCTION tally.append_unless TO tally_app, tally_maintenance;
