-- Append a batch to a stream whose end the caller knows, in one round trip. If the stream ends elsewhere, nothing is
-- written and the result is NULL.
CREATE OR REPLACE FUNCTION tally.append_batch(
    to_stream text, first_seq bigint, new_type text[], new_version integer[], new_id uuid[], new_time bigint[],
    new_payload text[], new_meta text[], new_link bytea[], new_signature bytea[], new_recorded bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM tally.require_safe();
    LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
    PERFORM tally.take_turn(1952541811, hashtext(to_stream));
    IF first_seq <> coalesce((SELECT seq FROM tally.streams WHERE stream = to_stream), 0) + 1 THEN
        RETURN NULL;
    END IF;
    RETURN tally.write_stream(
        to_stream, first_seq, new_type, new_version, new_id, new_time, new_payload, new_meta, new_link, new_signature,
        new_recorded
    );
END
$$;

GRANT EXECUTE ON FUNCTION tally.append_batch TO tally_app, tally_maintenance;
