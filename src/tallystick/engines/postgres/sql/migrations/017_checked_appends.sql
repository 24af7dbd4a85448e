-- What a login that appends can hand in is an event, or refused: names, JSON on one line, orgs, places. Control streams
-- are written by `tally_control`.

-- Whether JSON is nested less deeply than readers can follow. Its strings are cut out first.
CREATE FUNCTION tally.is_shallow(given text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rest text := regexp_replace(given, '"([^"\\]|\\.)*"', '', 'g');
BEGIN
    rest := translate(rest, translate(rest, '{}[]', ''), '');
    FOR depth IN 1..254 LOOP
        rest := replace(replace(rest, '{}', ''), '[]', '');
        EXIT WHEN rest = '';
    END LOOP;
    RETURN rest = '';
END
$$;

-- Whether a text is one JSON object that breaks no line, in which no key stands twice and nothing is nested too deeply:
-- every reader understands it alike. What is short or has few brackets is not deep, and is not looked at closely.
DO $do$
BEGIN
    EXECUTE format(
        $create$
        CREATE FUNCTION tally.is_object(given text) RETURNS boolean
        LANGUAGE sql STABLE AS $$
            SELECT given = '{}' OR (
                %s AND strpos(given, E'\n') = 0 AND strpos(given, E'\r') = 0
                AND (
                    octet_length(given) < 508
                    OR octet_length(given) - octet_length(replace(replace(given, '[', ''), '{', '')) < 255
                    OR tally.is_shallow(given)
                )
            )
        $$
        $create$,
        CASE WHEN current_setting('server_version_num')::integer >= 160000
            THEN 'given IS JSON OBJECT WITH UNIQUE KEYS' ELSE $old$json_typeof(given::json) = 'object'$old$ END
    );
END
$do$;

-- Whether what meta says of org, app and env are texts. An org is found by an index, whose entries are bounded.
-- Whether an array is a plain list of so many, counted from 1: any other bounds make slices of it empty.
CREATE FUNCTION tally.is_list(given anyarray, size integer) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT array_ndims(given) = 1 AND array_lower(given, 1) = 1 AND array_upper(given, 1) = size
$$;

-- Whether a JSON value is a number that an event may have as its sequence. NULL stays NULL.
CREATE FUNCTION tally.is_number(given jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN given IS NULL THEN NULL
        WHEN jsonb_typeof(given) <> 'number' OR given::text !~ '^[0-9]{1,19}$' THEN false
        ELSE given::numeric <= 9223372036854775807
    END
$$;

CREATE FUNCTION tally.is_about(meta jsonb) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_typeof(meta -> 'org'), 'string') = 'string'
        AND coalesce(jsonb_typeof(meta -> 'app'), 'string') = 'string'
        AND coalesce(jsonb_typeof(meta -> 'env'), 'string') = 'string'
        AND coalesce(octet_length(meta ->> 'org'), 1) BETWEEN 1 AND 1000
        AND coalesce(tally.is_number(meta -> 'source_seq'), true)
$$;

CREATE FUNCTION tally.is_stream(name text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN starts_with(name, 'run/') THEN name ~ '^run/[a-z0-9][a-z0-9_.:@=+-]{0,190}$'
        ELSE name ~ '^[a-z][a-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.:@=+-]{0,190}$' END
$$;

-- The caller acts as `tally_control`, or as a role that has its rights. What runs as the owner does not count.
CREATE FUNCTION tally.require_control(stream text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user)::name, 'tally_control', 'USAGE') THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'permission denied for stream %: control streams are written by tally_control', stream
        USING ERRCODE = 'insufficient_privilege';
END
$$;

-- Streams in one order, so that no two commits wait for each other. Whoever judged before has them already.
CREATE FUNCTION tally.take_turns(streams text[]) RETURNS void
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

-- As in 010, and everything is looked at.
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
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('synchronous_commit') = 'off' THEN
        PERFORM tally.require_safe(); -- asked twice, because the call costs more than the question
    END IF;
    IF starts_with(to_stream, 'tally.') THEN
        PERFORM tally.require_control(to_stream);
    END IF;
    IF (new_type ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$' AND new_version > 0 AND new_time >= 0 AND new_recorded >= 0
            AND tally.is_object(new_payload) AND octet_length(new_payload) + octet_length(new_meta) <= 1048576
        ) IS NOT TRUE THEN
        PERFORM tally.refuse_row(to_stream, 0, 'its type, version, time or payload is not one of an event');
    END IF;
    LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
    IF NOT pg_try_advisory_xact_lock(1952541811, hashtext(to_stream)) THEN
        PERFORM tally.take_turn(1952541811, hashtext(to_stream));
    END IF;
    IF new_meta <> '{}' THEN
        meta := new_meta::jsonb;
        IF (tally.is_object(new_meta) AND tally.is_about(meta)) IS NOT TRUE THEN
            PERFORM tally.refuse_row(to_stream, 0, 'its meta is not one of an event');
        END IF;
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

CREATE OR REPLACE FUNCTION tally.write_stream(
    to_stream text, first_seq bigint, new_type text[], new_version integer[], new_id uuid[], new_time bigint[],
    new_payload text[], new_meta text[], new_link bytea[], new_signature bytea[], new_recorded bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    scope text := nullif(current_setting('tally.org', true), '');
    size integer := cardinality(new_id);
    head record;
    of_org text;
    first bigint;
BEGIN
    PERFORM tally.require_safe();
    IF starts_with(to_stream, 'tally.') THEN
        PERFORM tally.require_control(to_stream);
    END IF;
    LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
    IF NOT pg_try_advisory_xact_lock(1952541811, hashtext(to_stream)) THEN -- whoever judged before has it already
        PERFORM tally.take_turn(1952541811, hashtext(to_stream));
    END IF;
    IF size < 1 OR (tally.is_list(new_type, size) AND tally.is_list(new_meta, size) AND tally.is_list(new_link, size))
            IS NOT TRUE THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'a batch has events, and a link for each, counted from 1');
    END IF;
    SELECT seq, link, org INTO head FROM tally.streams WHERE stream = to_stream;
    IF first_seq IS DISTINCT FROM coalesce(head.seq, 0) + 1 THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'it does not follow');
    END IF;
    IF head.seq IS NULL AND tally.is_stream(to_stream) IS NOT TRUE THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'it is not the name of a stream');
    END IF;
    IF scope IS NOT NULL AND head.seq IS NOT NULL AND head.org IS DISTINCT FROM scope THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'it is of another org');
    END IF;
    IF new_recorded < 0 THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'its time of recording is negative');
    END IF;
    of_org := head.org;
    IF of_org IS NULL THEN
        SELECT meta::jsonb ->> 'org' INTO of_org
        FROM unnest(new_meta) AS each(meta) WHERE meta <> '{}' AND meta::jsonb ->> 'org' IS NOT NULL LIMIT 1;
    END IF;
    IF (new_type[1] ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$') IS NOT TRUE THEN
        PERFORM tally.refuse_row(to_stream, 0, 'its type is not one of an event');
    END IF;
    IF new_meta[1] <> '{}' AND (tally.is_object(new_meta[1]) AND tally.is_about(new_meta[1]::jsonb)) IS NOT TRUE THEN
        PERFORM tally.refuse_row(to_stream, 0, 'its meta is not one of an event');
    END IF;
    first := tally.draw(size);
    INSERT INTO tally.events
    SELECT first - 1 + given.place, to_stream, given.seq, given.type, given.version, given.id, given.time,
        given.payload, given.meta, given.checksum,
        CASE
            WHEN given.link IS DISTINCT FROM tally.link(
                given.link_before, to_stream, given.seq, given.type, given.version, given.id, given.time, given.meta,
                given.checksum
            ) THEN tally.refuse_row(to_stream, given.seq, 'its link does not follow')
            WHEN (tally.is_object(given.payload) AND given.version > 0 AND given.time >= 0
                    AND octet_length(given.payload) + octet_length(given.meta) <= 1048576
                    AND (given.type = new_type[1] OR given.type ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$')
                ) IS NOT TRUE
                THEN tally.refuse_row(to_stream, given.seq, 'its type, version, time or payload is not one of an event')
            WHEN given.meta <> '{}' AND given.meta IS DISTINCT FROM new_meta[1]
                    AND (tally.is_object(given.meta) AND tally.is_about(given.about)) IS NOT TRUE
                THEN tally.refuse_row(to_stream, given.seq, 'its meta is not one of an event')
            WHEN given.about ->> 'org' <> of_org OR scope IS NOT NULL AND given.about ->> 'org' IS DISTINCT FROM scope
                THEN tally.refuse_row(to_stream, given.seq, 'it is of another org')
            ELSE given.link
        END,
        given.signature, new_recorded, given.about ->> 'org', given.about ->> 'app', given.about ->> 'env'
    FROM (
        SELECT each.*, first_seq - 1 + each.place AS seq,
            sha256(convert_to(each.payload, 'UTF8')) AS checksum,
            CASE WHEN each.meta <> '{}' THEN each.meta::jsonb END AS about
        FROM unnest(
            new_type, new_version, new_id, new_time, new_payload, new_meta, new_link, new_signature,
            array_prepend(coalesce(head.link, decode(repeat('00', 32), 'hex')), new_link[:size - 1])
        ) WITH ORDINALITY AS each(type, version, id, time, payload, meta, link, signature, link_before, place)
        OFFSET 0 -- computed once a row, not once a mention
    ) AS given;
    INSERT INTO tally.streams (stream, seq, link, org)
    VALUES (to_stream, first_seq - 1 + size, new_link[size], of_org)
    ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, link = excluded.link, org = excluded.org;
    RETURN first;
END
$$;

-- The same for whoever knows where the stream ends, without asking first: one statement, one round trip. NULL, and
-- nothing is written, if the stream ends elsewhere.
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

CREATE OR REPLACE FUNCTION tally.write_batch(
    new_streams text[], new_ends bytea[], new_stream integer[], new_place integer[], new_seq bigint[], new_type text[],
    new_version integer[], new_id uuid[], new_time bigint[], new_payload text[], new_meta text[], new_link bytea[],
    new_signature bytea[], new_recorded bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    scope text := nullif(current_setting('tally.org', true), '');
    size integer := cardinality(new_seq);
    first bigint;
    lowest bigint;
    highest bigint;
    wrong text;
BEGIN
    PERFORM tally.require_safe();
    LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
    IF size IS NULL OR size < 1 OR new_recorded < 0 THEN
        PERFORM tally.refuse_row(new_streams[1], 0, 'a batch has events, and a time of recording');
    END IF;
    IF (tally.is_list(new_stream, size) AND tally.is_list(new_place, size) AND tally.is_list(new_seq, size)
            AND tally.is_list(new_type, size) AND tally.is_list(new_meta, size) AND tally.is_list(new_link, size)
        ) IS NOT TRUE THEN
        PERFORM tally.refuse_row(new_streams[1], 0, 'its arrays are not lists of its events, counted from 1');
    END IF;
    SELECT stream INTO wrong FROM unnest(new_streams) AS named(stream) WHERE starts_with(stream, 'tally.') LIMIT 1;
    IF wrong IS NOT NULL THEN
        PERFORM tally.require_control(wrong);
    END IF;
    IF (new_type[1] ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$') IS NOT TRUE THEN
        PERFORM tally.refuse_row(new_streams[1], 0, 'its type is not one of an event');
    END IF;
    IF new_meta[1] <> '{}' AND (tally.is_object(new_meta[1]) AND tally.is_about(new_meta[1]::jsonb)) IS NOT TRUE THEN
        PERFORM tally.refuse_row(new_streams[1], 0, 'its meta is not one of an event');
    END IF;
    PERFORM tally.take_turns(new_streams);
    first := tally.draw(size);
    WITH heads AS (
        SELECT named.number, named.stream, named.end_link, coalesce(head.seq, 0) AS seq, head.org,
            head.seq IS NULL AS is_new,
            coalesce(head.link, decode(repeat('00', 32), 'hex')) AS link
        FROM unnest(new_streams, new_ends) WITH ORDINALITY AS named(stream, end_link, number)
        LEFT JOIN tally.streams AS head ON head.stream = named.stream
    ), given AS (
        SELECT each.*,
            each.number_before IS NOT DISTINCT FROM each.number AS goes_on,
            sha256(convert_to(each.payload, 'UTF8')) AS checksum,
            CASE WHEN each.meta <> '{}' THEN each.meta::jsonb END AS about
        FROM unnest(
            new_stream, new_place, new_seq, new_type, new_version, new_id, new_time, new_payload, new_meta, new_link,
            new_signature, array_prepend(NULL::integer, new_stream[:size - 1]),
            array_prepend(NULL::integer, new_place[:size - 1]),
            array_prepend(NULL::bigint, new_seq[:size - 1]), array_prepend(NULL::bytea, new_link[:size - 1])
        ) AS each(
            number, place, seq, type, version, id, time, payload, meta, link, signature, number_before, place_before,
            seq_before, link_before
        )
        OFFSET 0 -- computed once a row, not once a mention
    ), written AS (
        INSERT INTO tally.events
        SELECT first + given.place - 1, head.stream, given.seq, given.type, given.version, given.id, given.time,
            given.payload, given.meta, given.checksum,
            CASE
                WHEN given.seq IS DISTINCT FROM CASE WHEN given.goes_on THEN given.seq_before ELSE head.seq END + 1
                    THEN tally.refuse_row(head.stream, given.seq, 'it does not follow')
                WHEN given.goes_on AND given.place <= given.place_before
                    THEN tally.refuse_row(head.stream, given.seq, 'it stands before the event that it follows')
                WHEN head.is_new AND tally.is_stream(head.stream) IS NOT TRUE
                    THEN tally.refuse_row(head.stream, given.seq, 'it is not the name of a stream')
                WHEN given.link IS DISTINCT FROM tally.link(
                    CASE WHEN given.goes_on THEN given.link_before ELSE head.link END, head.stream, given.seq,
                    given.type, given.version, given.id, given.time, given.meta, given.checksum
                ) THEN tally.refuse_row(head.stream, given.seq, 'its link does not follow')
                WHEN (tally.is_object(given.payload) AND given.version > 0 AND given.time >= 0
                        AND octet_length(given.payload) + octet_length(given.meta) <= 1048576
                        AND (given.type = new_type[1] OR given.type ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$')
                    ) IS NOT TRUE
                        THEN tally.refuse_row(
                            head.stream, given.seq, 'its type, version, time or payload is not one of an event'
                        )
                WHEN given.meta <> '{}' AND given.meta IS DISTINCT FROM new_meta[1]
                        AND (tally.is_object(given.meta) AND tally.is_about(given.about)) IS NOT TRUE
                        THEN tally.refuse_row(head.stream, given.seq, 'its meta is not one of an event')
                WHEN scope IS NOT NULL AND (
                        given.about ->> 'org' IS DISTINCT FROM scope OR NOT head.is_new AND head.org IS DISTINCT FROM scope
                    )
                    THEN tally.refuse_row(head.stream, given.seq, 'it is of another org')
                ELSE given.link
            END,
            given.signature, new_recorded, given.about ->> 'org', given.about ->> 'app', given.about ->> 'env'
        FROM given JOIN heads AS head ON head.number = given.number
        RETURNING position, stream, seq, link, org
    ), ends AS (
        SELECT written.stream, max(written.seq) AS seq, head.end_link AS link, min(written.org) AS org,
            min(written.org) <> max(written.org) AS mixed, min(written.position) AS lowest,
            max(written.position) AS highest,
            max(written.seq) FILTER (WHERE written.link = head.end_link) = max(written.seq) AS ended
        FROM written JOIN heads AS head ON head.stream = written.stream
        GROUP BY written.stream, head.end_link
    ), moved AS (
        INSERT INTO tally.streams AS head (stream, seq, link, org)
        SELECT stream, seq, link, org FROM ends ORDER BY stream
        ON CONFLICT (stream) DO UPDATE
            SET seq = excluded.seq, link = excluded.link, org = coalesce(head.org, excluded.org)
        RETURNING head.stream, head.org
    )
    SELECT min(ends.stream) FILTER (WHERE ends.mixed OR ends.org <> moved.org OR ends.ended IS NOT TRUE),
        min(ends.lowest), max(ends.highest)
    INTO wrong, lowest, highest
    FROM ends JOIN moved ON moved.stream = ends.stream;
    IF wrong IS NOT NULL THEN
        PERFORM tally.refuse_row(wrong, 0, 'it is of another org, or does not end where it says');
    END IF;
    -- No position stands twice, so these two say that exactly those that were drawn were taken.
    IF lowest IS DISTINCT FROM first OR highest IS DISTINCT FROM first + size - 1 THEN
        PERFORM tally.refuse_row(new_streams[1], 0, 'its positions are not those that were drawn');
    END IF;
    RETURN first;
END
$$;

DROP FUNCTION tally.write_events;

-- What a retry is held against. Of an event that the session's org may not see, only that its id is taken.
CREATE OR REPLACE FUNCTION tally.events_with(ids uuid[])
RETURNS TABLE (
    "position" bigint, stream text, seq bigint, type text, version integer, id bytea, "time" bigint, payload bytea,
    meta bytea, checksum bytea, link bytea, signature bytea
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT position, stream, seq, type, version, uuid_send(id), time, convert_to(payload, 'UTF8'),
        convert_to(meta, 'UTF8'), checksum, link, signature
    FROM tally.events
    WHERE id = ANY (ids) AND NOT tally.is_foreign(org)
    UNION ALL
    SELECT 0, '(of another org)', 0, '', 0, uuid_send(id), 0, NULL, '{}', decode(repeat('00', 32), 'hex'),
        decode(repeat('00', 32), 'hex'), NULL
    FROM tally.events
    WHERE id = ANY (ids) AND tally.is_foreign(org)
$$;

CREATE OR REPLACE FUNCTION tally.leases_of(names text[])
RETURNS TABLE (stream text, number bigint, host text, pid bigint, started bigint, handle text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT stream, number, host, pid, started, handle
    FROM tally.leases
    WHERE stream = ANY (names)
        AND NOT EXISTS (
            SELECT FROM tally.streams AS head WHERE head.stream = leases.stream AND tally.is_foreign(head.org)
        )
$$;

-- A lease's number grows by one; the same number may only be released.
CREATE OR REPLACE FUNCTION tally.put_lease(
    of_stream text, new_number bigint, new_host text, new_pid bigint, new_started bigint, new_handle text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known bigint;
BEGIN
    SELECT number INTO known FROM tally.leases WHERE stream = of_stream FOR UPDATE;
    IF (tally.is_stream(of_stream) AND starts_with(of_stream, 'run/')) IS NOT TRUE
        OR (new_number = coalesce(known, 0) + 1 OR (new_number = known AND new_handle IS NULL)) IS NOT TRUE
        OR EXISTS (SELECT FROM tally.streams WHERE stream = of_stream AND tally.is_foreign(org)) THEN
        RAISE EXCEPTION 'lease % of % is refused', new_number, of_stream USING ERRCODE = 'TL409';
    END IF;
    INSERT INTO tally.leases AS held (stream, number, host, pid, started, handle)
    VALUES (of_stream, new_number, new_host, new_pid, new_started, new_handle)
    ON CONFLICT (stream) DO UPDATE SET number = excluded.number, host = excluded.host, pid = excluded.pid,
        started = excluded.started, handle = excluded.handle;
END
$$;

-- As in 014, and a command did not append what is not there, or is another org's.
CREATE OR REPLACE FUNCTION tally.place_range() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT position INTO NEW.first_position FROM tally.events
    WHERE stream = NEW.stream AND seq = NEW.first_seq AND NOT tally.is_foreign(org);
    SELECT position, link INTO NEW.last_position, NEW.link FROM tally.events
    WHERE stream = NEW.stream AND seq = NEW.last_seq AND NOT tally.is_foreign(org);
    IF NEW.first_position IS NULL OR NEW.last_position IS NULL THEN
        RAISE EXCEPTION 'the command is refused: no events % to % of %', NEW.first_seq, NEW.last_seq, NEW.stream
            USING ERRCODE = 'TL409';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION tally.known_damage(kept_max integer)
RETURNS TABLE (what text, reason text, "position" bigint, stream text, seq bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT what, reason, position, stream, seq FROM tally.damage
    WHERE nullif(current_setting('tally.org', true), '') IS NULL
    ORDER BY number LIMIT kept_max
$$;

-- As in 008, under the locks of 016.
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

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tally FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION tally.declare_infrastructure, tally.keep_snapshot FROM tally_app;
GRANT EXECUTE ON FUNCTION tally.declare_infrastructure, tally.keep_snapshot TO tally_control;
