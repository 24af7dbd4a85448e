-- Write a part of another store's log: {"after", "until", "cuts", "pruned", "events", "erasures"}, hashes in hex.
-- Events keep their positions, erased ones come without payloads, and streams may begin with a cut. The part follows
-- the end of the log. Every checksum, seq and link is computed again.
CREATE OR REPLACE FUNCTION tally.receive(part json, new_recorded bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    given record;
    head record;
    about jsonb;
    reason text;
BEGIN
    PERFORM tally.require_safe();
    IF nullif(current_setting('tally.org', true), '') IS NOT NULL THEN
        RAISE EXCEPTION 'a session with an org cannot receive a log' USING ERRCODE = 'TL403';
    END IF;
    PERFORM tally.lock_log();
    IF (SELECT coalesce(max(position), 0) FROM tally.events) <> (part ->> 'after')::bigint THEN
        RAISE EXCEPTION 'the log does not end at position %', part ->> 'after' USING ERRCODE = 'TL409';
    END IF;
    IF ((part ->> 'until')::bigint - (part ->> 'after')::bigint BETWEEN 0 AND 11000000) IS NOT TRUE OR EXISTS (
        SELECT FROM json_to_recordset(part -> 'pruned') AS gone(position bigint, id uuid)
        WHERE (position > (part ->> 'after')::bigint AND position <= (part ->> 'until')::bigint) IS NOT TRUE
    ) THEN
        RAISE EXCEPTION 'a position lies outside of the part' USING ERRCODE = 'TL409';
    END IF;
    IF EXISTS (
        SELECT FROM json_to_recordset(part -> 'pruned') AS gone(org text, type text, tags jsonb)
        WHERE (coalesce(type ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$', true) AND coalesce(octet_length(org), 1) <= 1000
            AND coalesce(tally.is_tagging(tags), true)) IS NOT TRUE
    ) THEN
        RAISE EXCEPTION 'a pruned event does not have a valid type, org or list of tags' USING ERRCODE = 'TL409';
    END IF;
    INSERT INTO tally.cuts
    SELECT stream, through, decode(link, 'hex'), first_position, last_position, count, org, fact_position
    FROM json_to_recordset(part -> 'cuts') AS cut(
        stream text, through bigint, link text, first_position bigint, last_position bigint, count bigint, org text,
        fact_position bigint
    );
    INSERT INTO tally.streams
    SELECT stream, through, decode(link, 'hex'), org
    FROM json_to_recordset(part -> 'cuts') AS cut(stream text, through bigint, link text, org text);
    WITH given AS (
        INSERT INTO tally.pruned (position, id, org, type, tags)
        SELECT position, id, org, type,
            CASE WHEN type IS NOT NULL THEN tally.tags_of(json_build_object('tags', tags)::text) END
        FROM json_to_recordset(part -> 'pruned') AS gone(position bigint, id uuid, org text, type text, tags json)
        RETURNING position, org, type, tags
    )
    INSERT INTO tally.event_tags SELECT tag, type, position, org FROM given, unnest(tags) AS tag ORDER BY 1, 2, 3;
    FOR given IN
        SELECT position, stream, seq, type, version, id, time, payload, meta, decode(checksum, 'hex') AS checksum,
            decode(link, 'hex') AS link, decode(signature, 'hex') AS signature
        FROM json_to_recordset(part -> 'events') AS event(
            position bigint, stream text, seq bigint, type text, version integer, id uuid, time bigint, payload text,
            meta text, checksum text, link text, signature text
        )
        ORDER BY position
    LOOP
        SELECT seq, link, org INTO head FROM tally.streams WHERE stream = given.stream;
        about := CASE WHEN given.meta <> '{}' THEN given.meta::jsonb END;
        reason := CASE
            WHEN given.position <= (part ->> 'after')::bigint OR given.position > (part ->> 'until')::bigint
                THEN 'its position lies outside of the part'
            WHEN (given.type ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$' AND given.version > 0 AND given.time >= 0
                    AND octet_length(coalesce(given.payload, '')) + octet_length(given.meta) <= 1048576) IS NOT TRUE
                THEN 'its type, version, time or size is not valid for an event'
            WHEN head.seq IS NULL AND tally.is_stream(given.stream) IS NOT TRUE THEN 'it is not the name of a stream'
            WHEN given.seq IS DISTINCT FROM coalesce(head.seq, 0) + 1 THEN 'it does not follow'
            WHEN given.meta <> '{}' AND (tally.is_object(given.meta) AND tally.is_about(about)) IS NOT TRUE
                THEN 'its meta is not a JSON object that names org, app and env as text'
            WHEN given.payload IS NOT NULL AND tally.is_object(given.payload) IS NOT TRUE
                THEN 'its payload is not a JSON object'
            WHEN given.payload IS NULL AND given.stream LIKE 'tally.%' THEN 'a control fact is never erased'
            WHEN given.payload IS NOT NULL AND given.checksum IS DISTINCT FROM sha256(convert_to(given.payload, 'UTF8'))
                THEN 'its payload does not match its checksum'
            WHEN given.link IS DISTINCT FROM tally.link(
                coalesce(head.link, decode(repeat('00', 32), 'hex')), given.stream, given.seq, given.type,
                given.version, given.id, given.time, given.meta, given.checksum
            ) THEN 'its link does not follow'
            WHEN about ->> 'org' <> head.org THEN 'it belongs to another org'
        END;
        IF reason IS NOT NULL THEN
            PERFORM tally.refuse_row(given.stream, given.seq, reason);
        END IF;
        INSERT INTO tally.streams (stream, seq, link, org)
        VALUES (given.stream, given.seq, given.link, coalesce(head.org, about ->> 'org'))
        ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, link = excluded.link, org = excluded.org;
        IF about ->> 'source' IS NOT NULL AND about ->> 'source_seq' IS NOT NULL THEN
            INSERT INTO tally.org_sources AS known
            VALUES (coalesce(about ->> 'org', ''), about ->> 'source', (about ->> 'source_seq')::bigint)
            ON CONFLICT (org, source) DO UPDATE SET seq = greatest(known.seq, excluded.seq);
        END IF;
    END LOOP;
    -- In one statement, so that their tags are locked together.
    INSERT INTO tally.events
    SELECT position, stream, seq, type, version, id, time, payload, meta, decode(checksum, 'hex'), decode(link, 'hex'),
        decode(signature, 'hex'), new_recorded, about ->> 'org', about ->> 'app', about ->> 'env'
    FROM json_to_recordset(part -> 'events') AS event(
            position bigint, stream text, seq bigint, type text, version integer, id uuid, time bigint, payload text,
            meta text, checksum text, link text, signature text
        ),
        LATERAL (SELECT CASE WHEN meta <> '{}' THEN meta::jsonb END AS about) AS parsed
    ORDER BY position;
    INSERT INTO tally.erasures
    SELECT erased.position, erased.stream, erased.seq, decode(erased.checksum, 'hex'),
        (SELECT org FROM tally.streams WHERE stream = erased.stream), erased.fact_position
    FROM json_to_recordset(part -> 'erasures') AS erased(
        position bigint, stream text, seq bigint, checksum text, fact_position bigint
    );
    PERFORM setval('tally.positions', greatest(last_value, (part ->> 'until')::bigint)) FROM tally.positions;
END
$$;

GRANT EXECUTE ON FUNCTION tally.receive TO tally_maintenance;
