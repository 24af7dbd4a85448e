-- Keep a snapshot. A retry finds the one that it made.
CREATE OR REPLACE FUNCTION tally.keep_snapshot(
    new_id uuid, of_stream text, seq bigint, "position" bigint, link bytea, reducer text, reducer_version integer,
    upcasters bytea, kind text, base uuid, state_hash bytea, made bigint, body bytea
) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO tally.snapshots VALUES (
        new_id, of_stream, seq, position, link, reducer, reducer_version, upcasters, kind, base, state_hash, made,
        (SELECT org FROM tally.streams WHERE stream = of_stream), body
    )
    ON CONFLICT (id) DO NOTHING
$$;

GRANT EXECUTE ON FUNCTION tally.keep_snapshot TO tally_control, tally_maintenance;
