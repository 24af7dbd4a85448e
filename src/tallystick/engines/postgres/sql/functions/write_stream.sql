-- Write events of one stream: seqs and positions follow from the first ones, and the last link is the stream's end.
-- This takes less, and has less to check, than write_batch. Every seq, checksum, link and org is computed again.
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
    IF NOT pg_try_advisory_xact_lock(1952541811, hashtext(to_stream)) THEN -- a caller that judged has it already
        PERFORM tally.take_turn(1952541811, hashtext(to_stream));
    END IF;
    IF size < 1 OR (tally.is_list(new_type, size) AND tally.is_list(new_meta, size) AND tally.is_list(new_link, size))
            IS NOT TRUE THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'a batch needs events, each with a type, meta and link');
    END IF;
    SELECT seq, link, org INTO head FROM tally.streams WHERE stream = to_stream;
    IF first_seq IS DISTINCT FROM coalesce(head.seq, 0) + 1 THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'it does not follow');
    END IF;
    IF head.seq IS NULL AND tally.is_stream(to_stream) IS NOT TRUE THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'it is not the name of a stream');
    END IF;
    IF scope IS NOT NULL AND head.seq IS NOT NULL AND head.org IS DISTINCT FROM scope THEN
        PERFORM tally.refuse_row(to_stream, first_seq, 'it belongs to another org');
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
        PERFORM tally.refuse_row(to_stream, 0, 'its type is not valid for an event');
    END IF;
    IF new_meta[1] <> '{}' AND (tally.is_object(new_meta[1]) AND tally.is_about(new_meta[1]::jsonb)) IS NOT TRUE THEN
        PERFORM tally.refuse_row(to_stream, 0, 'its meta is not valid for an event');
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
                THEN tally.refuse_row(
                    to_stream, given.seq, 'its type, version, time or payload is not valid for an event'
                )
            WHEN given.meta <> '{}' AND given.meta IS DISTINCT FROM new_meta[1]
                    AND (tally.is_object(given.meta) AND tally.is_about(given.about)) IS NOT TRUE
                THEN tally.refuse_row(to_stream, given.seq, 'its meta is not valid for an event')
            WHEN given.about ->> 'org' <> of_org OR scope IS NOT NULL AND given.about ->> 'org' IS DISTINCT FROM scope
                THEN tally.refuse_row(to_stream, given.seq, 'it belongs to another org')
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
        OFFSET 0 -- computed once per row, not once per use
    ) AS given;
    INSERT INTO tally.streams (stream, seq, link, org)
    VALUES (to_stream, first_seq - 1 + size, new_link[size], of_org)
    ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, link = excluded.link, org = excluded.org;
    RETURN first;
END
$$;

GRANT EXECUTE ON FUNCTION tally.write_stream TO tally_app, tally_maintenance;
