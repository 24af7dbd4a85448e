-- The stored events with these ids, for retries. Of an event that the session's org may not see, only that its id is
-- taken.
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

GRANT EXECUTE ON FUNCTION tally.events_with TO tally_app, tally_maintenance;
