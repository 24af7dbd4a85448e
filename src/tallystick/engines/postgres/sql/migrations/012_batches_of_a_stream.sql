-- Most batches go to one stream. Its seqs and positions then follow from the first ones, and its end is the last link:
-- `write_stream` takes less, and has less to check, than `write_batch`, which stays for commits over several streams.
--
-- Both hold what they are given against NULL as against any other value. `write_batch` of 011 did not: an array whose
-- subscripts do not begin with 1 left rows without one to follow, and those were stored unchecked.

CREATE FUNCTION tally.write_stream(
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
    PERFORM pg_advisory_xact_lock_shared(1952541804, 1);
    IF size < 1 OR cardinality(new_link) IS DISTINCT FROM size OR array_lower(new_link, 1) IS DISTINCT FROM 1 THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'a batch has events, and a link for each, counted from 1');
    END IF;
    SELECT seq, link, org INTO head FROM tally.streams WHERE stream = to_stream;
    IF first_seq IS DISTINCT FROM coalesce(head.seq, 0) + 1 THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'it does not follow');
    END IF;
    of_org := head.org;
    IF of_org IS NULL THEN
        SELECT meta::jsonb ->> 'org' INTO of_org
        FROM unnest(new_meta) AS each(meta) WHERE meta <> '{}' AND meta::jsonb ->> 'org' IS NOT NULL LIMIT 1;
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
CREATE FUNCTION tally.append_batch(
    to_stream text, first_seq bigint, new_type text[], new_version integer[], new_id uuid[], new_time bigint[],
    new_payload text[], new_meta text[], new_link bytea[], new_signature bytea[], new_recorded bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM tally.require_safe();
    PERFORM pg_advisory_xact_lock_shared(1952541804, 1);
    PERFORM pg_advisory_xact_lock(1952541811, hashtext(to_stream));
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
    PERFORM pg_advisory_xact_lock_shared(1952541804, 1);
    first := tally.draw(size);
    WITH heads AS (
        SELECT named.number, named.stream, named.end_link, coalesce(head.seq, 0) AS seq, head.org,
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
            array_prepend(NULL::bigint, new_seq[:size - 1]), array_prepend(NULL::bytea, new_link[:size - 1])
        ) AS each(
            number, place, seq, type, version, id, time, payload, meta, link, signature, number_before, seq_before,
            link_before
        )
        OFFSET 0 -- computed once a row, not once a mention
    ), written AS (
        INSERT INTO tally.events
        SELECT first + given.place - 1, head.stream, given.seq, given.type, given.version, given.id, given.time,
            given.payload, given.meta, given.checksum,
            CASE
                WHEN given.seq IS DISTINCT FROM CASE WHEN given.goes_on THEN given.seq_before ELSE head.seq END + 1
                    THEN tally.refuse_row(head.stream, given.seq, 'it does not follow')
                WHEN given.link IS DISTINCT FROM tally.link(
                    CASE WHEN given.goes_on THEN given.link_before ELSE head.link END, head.stream, given.seq,
                    given.type, given.version, given.id, given.time, given.meta, given.checksum
                ) THEN tally.refuse_row(head.stream, given.seq, 'its link does not follow')
                WHEN scope IS NOT NULL AND (given.about ->> 'org' IS DISTINCT FROM scope OR head.org <> scope)
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

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tally FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tally.write_stream, tally.append_batch TO tally_app, tally_maintenance;
