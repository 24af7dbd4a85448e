-- Append one event with the record of its command, in one round trip. `status` as in append_event, or `repeated`: the
-- command took effect already. A command is locked like a source of events, under a name that no source can have.
CREATE OR REPLACE FUNCTION tally.append_command(
    to_stream text, expected bigint, new_type text, new_version integer, new_id uuid, new_time bigint,
    new_payload text, new_meta text, new_signature bytea, new_recorded bigint, id_given boolean,
    lease_handle text, lease_number bigint,
    of_org text, of_actor text, of_endpoint text, of_key text, request_hash bytea, response bytea, run_at bigint,
    OUT status text, OUT seq bigint, OUT "position" bigint, OUT link bytea, OUT org text
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    new_number bigint;
BEGIN
    IF tally.is_foreign(of_org) THEN
        status := 'foreign';
        RETURN;
    END IF;
    LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
    PERFORM tally.take_turn(1952541811, hashtext(to_stream));
    PERFORM tally.take_turn(1952541812, hashtext(concat_ws(E'\n', '', of_org, of_actor, of_endpoint, of_key)));
    IF EXISTS (
        SELECT FROM tally.commands AS known
        WHERE known.org = of_org AND known.actor = of_actor AND known.endpoint = of_endpoint AND known.key = of_key
    ) THEN
        status := 'repeated';
        RETURN;
    END IF;
    SELECT done.status, done.seq, done.position, done.link, done.org INTO status, seq, position, link, org
    FROM tally.append_event(
        to_stream, expected, new_type, new_version, new_id, new_time, new_payload, new_meta, new_signature,
        new_recorded, id_given, lease_handle, lease_number
    ) AS done;
    IF status = 'done' THEN
        INSERT INTO tally.commands AS known (org, actor, endpoint, key, request_hash, recorded, response)
        VALUES (of_org, of_actor, of_endpoint, of_key, request_hash, run_at, response)
        RETURNING known.number INTO new_number;
        INSERT INTO tally.command_ranges VALUES (new_number, 0, to_stream, seq, seq, of_org);
    END IF;
END
$$;

GRANT EXECUTE ON FUNCTION tally.append_command TO tally_app, tally_maintenance;
