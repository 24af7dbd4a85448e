-- Write events of several streams that were judged under the locks of begin_append. Rows come stream by stream, each
-- with its place in the commit, so that a row follows the one before it and nothing is sorted. Every seq, checksum,
-- link and org is computed again: a caller can add to the end of a stream, and nothing else.
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
        PERFORM tally.refuse_row(new_streams[1], 0, 'a batch needs events and a time of recording');
    END IF;
    IF (tally.is_list(new_stream, size) AND tally.is_list(new_place, size) AND tally.is_list(new_seq, size)
            AND tally.is_list(new_type, size) AND tally.is_list(new_meta, size) AND tally.is_list(new_link, size)
        ) IS NOT TRUE THEN
        PERFORM tally.refuse_row(new_streams[1], 0, 'its arrays do not have one element per event, counted from 1');
    END IF;
    SELECT stream INTO wrong FROM unnest(new_streams) AS named(stream) WHERE starts_with(stream, 'tally.') LIMIT 1;
    IF wrong IS NOT NULL THEN
        PERFORM tally.require_control(wrong);
    END IF;
    IF (new_type[1] ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$') IS NOT TRUE THEN
        PERFORM tally.refuse_row(new_streams[1], 0, 'its type is not valid for an event');
    END IF;
    IF new_meta[1] <> '{}' AND (tally.is_object(new_meta[1]) AND tally.is_about(new_meta[1]::jsonb)) IS NOT TRUE THEN
        PERFORM tally.refuse_row(new_streams[1], 0, 'its meta is not valid for an event');
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
            each.number_before IS NOT DISTINCT FROM each.number AS continues,
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
        OFFSET 0 -- computed once per row, not once per use
    ), written AS (
        INSERT INTO tally.events
        SELECT first + given.place - 1, head.stream, given.seq, given.type, given.version, given.id, given.time,
            given.payload, given.meta, given.checksum,
            CASE
                WHEN given.seq IS DISTINCT FROM CASE WHEN given.continues THEN given.seq_before ELSE head.seq END + 1
                    THEN tally.refuse_row(head.stream, given.seq, 'it does not follow')
                WHEN given.continues AND given.place <= given.place_before
                    THEN tally.refuse_row(head.stream, given.seq, 'its position is not after that of its predecessor')
                WHEN head.is_new AND tally.is_stream(head.stream) IS NOT TRUE
                    THEN tally.refuse_row(head.stream, given.seq, 'it is not the name of a stream')
                WHEN given.link IS DISTINCT FROM tally.link(
                    CASE WHEN given.continues THEN given.link_before ELSE head.link END, head.stream, given.seq,
                    given.type, given.version, given.id, given.time, given.meta, given.checksum
                ) THEN tally.refuse_row(head.stream, given.seq, 'its link does not follow')
                WHEN (tally.is_object(given.payload) AND given.version > 0 AND given.time >= 0
                        AND octet_length(given.payload) + octet_length(given.meta) <= 1048576
                        AND (given.type = new_type[1] OR given.type ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$')
                    ) IS NOT TRUE
                        THEN tally.refuse_row(
                            head.stream, given.seq, 'its type, version, time or payload is not valid for an event'
                        )
                WHEN given.meta <> '{}' AND given.meta IS DISTINCT FROM new_meta[1]
                        AND (tally.is_object(given.meta) AND tally.is_about(given.about)) IS NOT TRUE
                        THEN tally.refuse_row(head.stream, given.seq, 'its meta is not valid for an event')
                WHEN scope IS NOT NULL AND (
                        given.about ->> 'org' IS DISTINCT FROM scope
                        OR NOT head.is_new AND head.org IS DISTINCT FROM scope
                    )
                    THEN tally.refuse_row(head.stream, given.seq, 'it belongs to another org')
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
        PERFORM tally.refuse_row(wrong, 0, 'it belongs to another org, or does not end where it says');
    END IF;
    -- Positions are unique, so these two bounds show that exactly the drawn ones were used.
    IF lowest IS DISTINCT FROM first OR highest IS DISTINCT FROM first + size - 1 THEN
        PERFORM tally.refuse_row(new_streams[1], 0, 'its positions are not those that were drawn');
    END IF;
    RETURN first;
END
$$;

GRANT EXECUTE ON FUNCTION tally.write_batch TO tally_app, tally_maintenance;
