-- Single appends, again: the same answers as in 008 with less work. Locks are taken in assignments, because PERFORM runs
-- a query; the head is looked up, judged, linked and moved by one UPDATE, and looked at only if that moved nothing.

CREATE OR REPLACE FUNCTION tally.announce_append() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    held boolean;
BEGIN
    held := pg_catalog.pg_advisory_xact_lock_shared(1952541804, 1) IS NOT NULL;
    RETURN NULL;
END
$$;

-- As in 004, but whoever draws one position shares the lock: nextval needs none, it must only not fall between the two
-- halves of drawing several.
CREATE OR REPLACE FUNCTION tally.draw(count integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    first bigint;
    held boolean;
BEGIN
    BEGIN
        IF count = 1 THEN
            held := pg_catalog.pg_advisory_xact_lock_shared(1952541804, 2) IS NOT NULL;
            first := pg_catalog.nextval('tally.positions');
        ELSE
            held := pg_catalog.pg_advisory_xact_lock(1952541804, 2) IS NOT NULL;
            first := pg_catalog.nextval('tally.positions');
            first := pg_catalog.setval('tally.positions', first + count - 1) - count + 1;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'TL000';
    EXCEPTION WHEN SQLSTATE 'TL000' THEN
        RETURN first;
    END;
END
$$;

-- One event in one round trip. `status`: done; conflict (seq says where the stream is); org (org says whose it is);
-- foreign (the session's org may not know); judge (the id or the lease needs a closer look, nothing was written).
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
    held boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('synchronous_commit') = 'off' THEN
        PERFORM tally.require_safe(); -- asked twice, because the call costs more than the question
    END IF;
    held := pg_advisory_xact_lock_shared(1952541804, 1) IS NOT NULL;
    held := pg_advisory_xact_lock(1952541811, hashtext(to_stream)) IS NOT NULL;
    IF new_meta <> '{}' THEN
        meta := new_meta::jsonb;
        own_org := meta ->> 'org';
    END IF;
    IF scope IS NOT NULL AND own_org IS DISTINCT FROM scope THEN
        status := 'foreign';
        RETURN;
    END IF;
    IF id_given THEN -- not one condition with the next: what holds a query is never quick, even where it is not needed
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
