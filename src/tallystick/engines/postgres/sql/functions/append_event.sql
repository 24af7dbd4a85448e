-- Append one event in one round trip. `status` is one of
--   done
--   conflict  the stream is at `seq`, not where it was expected
--   org       the stream belongs to `org`
--   foreign   the org of the session may not know more
--   judge     the id or the lease needs a closer look; nothing was written
CREATE OR REPLACE FUNCTION tally.append_event(
    to_stream text, expected bigint, new_type text, new_version integer, new_id uuid, new_time bigint,
    new_payload text, new_meta text, new_signature bytea, new_recorded bigint, id_given boolean,
    lease_handle text, lease_number bigint,
    OUT status text, OUT seq bigint, OUT "position" bigint, OUT link bytea, OUT org text
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    scope text := nullif(current_setting('tally.org', true), '');
    meta jsonb;
    own_org text;
    new_checksum bytea := sha256(convert_to(new_payload, 'UTF8'));
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('synchronous_commit') = 'off' THEN
        PERFORM tally.require_safe(); -- asked here first: the call costs more than the question
    END IF;
    IF starts_with(to_stream, 'tally.') THEN
        PERFORM tally.require_control(to_stream);
    END IF;
    IF (new_type ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$' AND new_version > 0 AND new_time >= 0 AND new_recorded >= 0
            AND tally.is_object(new_payload) AND octet_length(new_payload) + octet_length(new_meta) <= 1048576
        ) IS NOT TRUE THEN
        PERFORM tally.refuse_row(to_stream, 0, 'its type, version, time or payload is not valid for an event');
    END IF;
    LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
    IF NOT pg_try_advisory_xact_lock(1952541811, hashtext(to_stream)) THEN
        PERFORM tally.take_turn(1952541811, hashtext(to_stream));
    END IF;
    IF new_meta <> '{}' THEN
        meta := new_meta::jsonb;
        IF (tally.is_object(new_meta) AND tally.is_about(meta)) IS NOT TRUE THEN
            PERFORM tally.refuse_row(to_stream, 0, 'its meta is not valid for an event');
        END IF;
        own_org := meta ->> 'org';
    END IF;
    IF scope IS NOT NULL AND own_org IS DISTINCT FROM scope THEN
        status := 'foreign';
        RETURN;
    END IF;
    IF id_given THEN -- not joined with the next: a condition with a query in it is slow, even if it is not needed
        IF EXISTS (SELECT FROM tally.events AS stored WHERE stored.id = new_id) THEN
            status := 'judge';
            RETURN;
        END IF;
        IF EXISTS (SELECT FROM tally.pruned AS gone WHERE gone.id = new_id) THEN
            status := 'judge';
            RETURN;
        END IF;
    END IF;
    IF lease_handle IS NOT NULL THEN
        IF NOT EXISTS (
            SELECT FROM tally.leases AS held
            WHERE held.stream = to_stream AND held.handle = lease_handle AND held.number = lease_number
        ) THEN
            status := 'judge';
            RETURN;
        END IF;
    END IF;
    UPDATE tally.streams AS known
    SET seq = known.seq + 1,
        link = tally.link(
            known.link, to_stream, known.seq + 1, new_type, new_version, new_id, new_time, new_meta, new_checksum
        ),
        org = coalesce(known.org, own_org)
    WHERE known.stream = to_stream AND (expected < 0 OR known.seq = expected)
        AND (own_org IS NULL OR known.org IS NULL OR known.org = own_org)
        AND (scope IS NULL OR known.org = scope)
    RETURNING known.seq, known.link, known.org INTO seq, link, org;
    IF seq IS NULL THEN
        SELECT known.seq, known.org INTO seq, org FROM tally.streams AS known WHERE known.stream = to_stream;
        IF seq > 0 AND scope IS NOT NULL AND org IS DISTINCT FROM scope THEN
            status := 'foreign';
            seq := NULL;
            org := NULL;
            RETURN;
        END IF;
        IF expected >= 0 AND expected <> coalesce(seq, 0) THEN
            status := 'conflict';
            seq := coalesce(seq, 0);
            org := NULL;
            RETURN;
        END IF;
        IF seq > 0 THEN
            status := 'org';
            RETURN;
        END IF;
        IF (tally.is_stream(to_stream)) IS NOT TRUE THEN
            PERFORM tally.refuse_row(to_stream, 1, 'it is not the name of a stream');
        END IF;
        seq := 1;
        org := own_org;
        link := tally.link(
            decode(repeat('00', 32), 'hex'),
            to_stream, seq, new_type, new_version, new_id, new_time, new_meta, new_checksum
        );
        INSERT INTO tally.streams VALUES (to_stream, seq, link, org);
    END IF;
    position := tally.draw(1);
    INSERT INTO tally.events VALUES (
        position, to_stream, seq, new_type, new_version, new_id, new_time, new_payload, new_meta, new_checksum, link,
        new_signature, new_recorded, own_org, meta ->> 'app', meta ->> 'env'
    );
    status := 'done';
END
$$;

GRANT EXECUTE ON FUNCTION tally.append_event TO tally_app, tally_maintenance;
