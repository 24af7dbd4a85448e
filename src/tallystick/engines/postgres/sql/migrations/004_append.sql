-- Appending: the only way in for `tally_app`. Advisory locks, all of them held to the end of the transaction:
--   (1952541804, 1)             shared by every append, taken first: the evidence of 005_safe_head.sql. A commit over
--                               very many streams takes it alone, instead of a lock for each of them.
--   (1952541811, hash)          one for each stream, in ascending order of the hash, so that no two commits can
--                               wait for each other
--   (1952541812, hash)          one for each source of events, after those
-- and one that is held for the moment of drawing positions, so that a commit's positions stand together:
--   (1952541804, 2)

-- STABLE, because `convert_to` is: PostgreSQL then inlines it, which is three times as fast.
CREATE FUNCTION tally.link(
    previous bytea, stream text, seq bigint, type text, version integer, id uuid, "time" bigint, meta text,
    checksum bytea
) RETURNS bytea
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN sha256(convert_to(
    E'tallystick/1\n' || encode(previous, 'hex') || E'\n' || stream || E'\n' || seq::text || E'\n' || type || E'\n'
    || version::text || E'\n' || encode(uuid_send(id), 'hex') || E'\n' || "time"::text || E'\n' || meta || E'\n'
    || encode(checksum, 'hex'), 'UTF8'
));

-- The first of `count` positions that follow each other: the only way to draw any, so that nobody can draw between.
-- The lock is given back by undoing the inner block, whatever happens in it; what was drawn is never undone, and
-- neither are variables.
CREATE FUNCTION tally.draw(count integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    first bigint;
BEGIN
    BEGIN
        PERFORM pg_catalog.pg_advisory_xact_lock(1952541804, 2);
        first := pg_catalog.nextval('tally.positions');
        IF count > 1 THEN
            PERFORM pg_catalog.setval('tally.positions', first + count - 1);
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'TL000';
    EXCEPTION WHEN SQLSTATE 'TL000' THEN
        RETURN first;
    END;
END
$$;

ALTER TABLE tally.events ALTER COLUMN position SET DEFAULT tally.draw(1);

-- What must be so of every transaction that appends.
CREATE FUNCTION tally.require_safe() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'appends need READ COMMITTED: what the lock protects must be read after it was taken'
            USING ERRCODE = 'TL409';
    END IF;
    IF pg_catalog.current_setting('synchronous_commit') = 'off' THEN
        RAISE EXCEPTION 'appends need synchronous_commit: an acknowledged append is on disk' USING ERRCODE = 'TL409';
    END IF;
END
$$;

-- One event in one round trip. `status`: done; conflict (seq says where the stream is); org (org says whose it is);
-- foreign (the session's org may not know); judge (the id or the lease needs a closer look, nothing was written).
CREATE FUNCTION tally.append_event(
    to_stream text, expected bigint, new_type text, new_version integer, new_id uuid, new_time bigint,
    new_payload text, new_meta text, new_signature bytea, new_recorded bigint, id_given boolean,
    lease_handle text, lease_number bigint,
    OUT status text, OUT seq bigint, OUT "position" bigint, OUT link bytea, OUT org text
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    scope text := nullif(current_setting('tally.org', true), '');
    head tally.streams;
    meta jsonb;
    own_org text;
    new_checksum bytea := sha256(convert_to(new_payload, 'UTF8'));
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('synchronous_commit') = 'off' THEN
        PERFORM tally.require_safe(); -- asked twice, because the call costs more than the question
    END IF;
    PERFORM pg_advisory_xact_lock_shared(1952541804, 1);
    PERFORM pg_advisory_xact_lock(1952541811, hashtext(to_stream));
    SELECT * INTO head FROM tally.streams AS known WHERE known.stream = to_stream;
    IF new_meta <> '{}' THEN
        meta := new_meta::jsonb;
        own_org := meta ->> 'org';
    END IF;
    IF scope IS NOT NULL AND (own_org IS DISTINCT FROM scope OR (head.seq > 0 AND head.org IS DISTINCT FROM scope)) THEN
        status := 'foreign';
        RETURN;
    END IF;
    IF id_given THEN -- not one condition with the next: what holds a query is never quick, even where it is not needed
        IF EXISTS (SELECT FROM tally.events AS stored WHERE stored.id = new_id) THEN
            status := 'judge';
            RETURN;
        END IF;
    END IF;
    seq := coalesce(head.seq, 0);
    IF expected >= 0 AND expected <> seq THEN
        status := 'conflict';
        RETURN;
    END IF;
    org := coalesce(head.org, own_org);
    IF own_org <> org THEN
        status := 'org';
        RETURN;
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
    seq := seq + 1;
    position := tally.draw(1);
    link := tally.link(
        coalesce(head.link, decode(repeat('00', 32), 'hex')),
        to_stream, seq, new_type, new_version, new_id, new_time, new_meta, new_checksum
    );
    INSERT INTO tally.events VALUES (
        position, to_stream, seq, new_type, new_version, new_id, new_time, new_payload, new_meta, new_checksum, link,
        new_signature, new_recorded, own_org, meta ->> 'app', meta ->> 'env'
    );
    IF head.seq IS NULL THEN
        INSERT INTO tally.streams VALUES (to_stream, seq, link, org);
    ELSE
        UPDATE tally.streams AS known SET seq = append_event.seq, link = append_event.link, org = append_event.org
        WHERE known.stream = to_stream;
    END IF;
    status := 'done';
END
$$;

-- Lock streams and sources for the rest of the transaction, and say where the streams are. `foreign_org` instead of
-- an answer where the session's org may not know.
CREATE FUNCTION tally.begin_append(to_streams text[], from_sources text[])
RETURNS TABLE (stream text, seq bigint, link bytea, org text, foreign_org boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    scope text := nullif(current_setting('tally.org', true), '');
    key integer;
BEGIN
    PERFORM tally.require_safe();
    IF cardinality(to_streams) + cardinality(from_sources) > 1000 THEN
        PERFORM pg_advisory_xact_lock(1952541804, 1);
    ELSE
        PERFORM pg_advisory_xact_lock_shared(1952541804, 1);
        FOR key IN SELECT DISTINCT hashtext(name) FROM unnest(to_streams) AS name ORDER BY 1 LOOP
            PERFORM pg_advisory_xact_lock(1952541811, key);
        END LOOP;
        FOR key IN SELECT DISTINCT hashtext(name) FROM unnest(from_sources) AS name ORDER BY 1 LOOP
            PERFORM pg_advisory_xact_lock(1952541812, key);
        END LOOP;
    END IF;
    RETURN QUERY
        SELECT known.stream, known.seq, known.link, known.org,
            coalesce(scope IS NOT NULL AND known.org IS DISTINCT FROM scope, false)
        FROM tally.streams AS known
        WHERE known.stream = ANY (to_streams);
END
$$;

-- What a retry is held against. An event that the session's org may not see shows that its id is taken, and no more.
CREATE FUNCTION tally.events_with(ids uuid[])
RETURNS TABLE (
    "position" bigint, stream text, seq bigint, type text, version integer, id bytea, "time" bigint, payload bytea,
    meta bytea, checksum bytea, link bytea, signature bytea
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT position, CASE WHEN foreign_org THEN '(of another org)' ELSE stream END, seq, type, version, uuid_send(id),
        time, convert_to(payload, 'UTF8'), convert_to(meta, 'UTF8'), checksum, link, signature
    FROM (
        SELECT *, coalesce(nullif(current_setting('tally.org', true), '') <> coalesce(org, ''), false) AS foreign_org
        FROM tally.events
        WHERE id = ANY (ids)
    ) AS found
$$;

CREATE FUNCTION tally.heads_of_sources(names text[]) RETURNS TABLE (source text, seq bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT source, seq FROM tally.sources WHERE source = ANY (names)
$$;

CREATE FUNCTION tally.leases_of(names text[])
RETURNS TABLE (stream text, number bigint, host text, pid bigint, started bigint, handle text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT stream, number, host, pid, started, handle FROM tally.leases WHERE stream = ANY (names)
$$;

CREATE FUNCTION tally.refuse_row(stream text, seq bigint, reason text) RETURNS bytea
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'event % of % is refused: %', seq, stream, reason USING ERRCODE = 'TL409';
END
$$;

-- Write events that were judged under the locks of begin_append, in one set-based statement. Every seq, checksum,
-- link and org is computed here again: whoever calls this can add to a stream's end, and nothing else.
CREATE FUNCTION tally.write_events(
    new_streams text[], new_ends bytea[], new_stream integer[], new_seq bigint[], new_type text[], new_version integer[], new_id uuid[],
    new_time bigint[], new_payload text[], new_meta text[], new_link bytea[], new_signature bytea[], new_recorded bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    scope text := nullif(current_setting('tally.org', true), '');
    first bigint;
    wrong text;
BEGIN
    PERFORM tally.require_safe();
    PERFORM pg_advisory_xact_lock_shared(1952541804, 1);
    first := tally.draw(cardinality(new_seq));
    WITH heads AS (
        SELECT named.number, named.stream, named.end_link, coalesce(head.seq, 0) AS seq, head.org,
            coalesce(head.link, decode(repeat('00', 32), 'hex')) AS link
        FROM unnest(new_streams, new_ends) WITH ORDINALITY AS named(stream, end_link, number)
        LEFT JOIN tally.streams AS head ON head.stream = named.stream
    ), given AS (
        SELECT each.*,
            sha256(convert_to(each.payload, 'UTF8')) AS checksum,
            CASE WHEN each.meta <> '{}' THEN each.meta::jsonb END AS about,
            lag(each.seq) OVER of_stream AS seq_before,
            lag(each.link) OVER of_stream AS link_before
        FROM unnest(
            new_stream, new_seq, new_type, new_version, new_id, new_time, new_payload, new_meta, new_link, new_signature
        ) WITH ORDINALITY AS each(number, seq, type, version, id, time, payload, meta, link, signature, n)
        WINDOW of_stream AS (PARTITION BY each.number ORDER BY each.n)
    ), written AS (
        INSERT INTO tally.events
        SELECT first + given.n - 1, head.stream, given.seq, given.type, given.version, given.id, given.time,
            given.payload, given.meta, given.checksum,
            CASE
                WHEN given.seq <> coalesce(given.seq_before, head.seq) + 1
                    THEN tally.refuse_row(head.stream, given.seq, 'it does not follow')
                WHEN given.link <> tally.link(
                    coalesce(given.link_before, head.link), head.stream, given.seq, given.type, given.version,
                    given.id, given.time, given.meta, given.checksum
                ) THEN tally.refuse_row(head.stream, given.seq, 'its link does not follow')
                WHEN scope IS NOT NULL AND (given.about ->> 'org' IS DISTINCT FROM scope OR head.org <> scope)
                    THEN tally.refuse_row(head.stream, given.seq, 'it is of another org')
                ELSE given.link
            END,
            given.signature, new_recorded, given.about ->> 'org', given.about ->> 'app', given.about ->> 'env'
        FROM given JOIN heads AS head ON head.number = given.number
        RETURNING stream, seq, link, org
    ), ends AS (
        SELECT written.stream, max(written.seq) AS seq, head.end_link AS link, min(written.org) AS org,
            min(written.org) <> max(written.org) AS mixed,
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
    SELECT min(ends.stream) INTO wrong
    FROM ends JOIN moved ON moved.stream = ends.stream
    WHERE ends.mixed OR ends.org <> moved.org OR ends.ended IS NOT TRUE;
    IF wrong IS NOT NULL THEN
        PERFORM tally.refuse_row(wrong, 0, 'it is of another org, or does not end where it says');
    END IF;
    RETURN first;
END
$$;

CREATE FUNCTION tally.move_sources(names text[], seqs bigint[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO tally.sources AS known (source, seq)
    SELECT name, seq FROM unnest(names, seqs) AS given(name, seq) ORDER BY name
    ON CONFLICT (source) DO UPDATE SET seq = greatest(known.seq, excluded.seq)
$$;

-- A lease's number only grows; the same number may only be released.
CREATE FUNCTION tally.put_lease(
    of_stream text, new_number bigint, new_host text, new_pid bigint, new_started bigint, new_handle text
) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO tally.leases AS known (stream, number, host, pid, started, handle)
    VALUES (of_stream, new_number, new_host, new_pid, new_started, new_handle)
    ON CONFLICT (stream) DO UPDATE SET number = excluded.number, host = excluded.host, pid = excluded.pid,
        started = excluded.started, handle = excluded.handle
    WHERE excluded.number > known.number OR (excluded.number = known.number AND excluded.handle IS NULL)
$$;
