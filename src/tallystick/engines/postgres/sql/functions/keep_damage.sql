-- Put findings on record. One that is there already is not repeated, and what was being settled is damage again.
CREATE OR REPLACE FUNCTION tally.keep_damage(
    kept_max integer, new_what text[], new_reason text[], new_position bigint[], new_stream text[], new_seq bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOCK TABLE tally.damage IN SHARE ROW EXCLUSIVE MODE;
    UPDATE tally.damage SET settling = false WHERE settling;
    INSERT INTO tally.damage (what, reason, position, stream, seq)
    SELECT given.what, given.reason, given.position, given.stream, given.seq
    FROM unnest(new_what, new_reason, new_position, new_stream, new_seq)
        WITH ORDINALITY AS given(what, reason, position, stream, seq, place)
    WHERE NOT EXISTS (
        SELECT FROM tally.damage AS known
        WHERE (known.what, known.reason, known.position, known.stream, known.seq)
            = (given.what, given.reason, given.position, given.stream, given.seq)
    )
    ORDER BY given.place
    LIMIT greatest(kept_max - (SELECT count(*) FROM tally.damage), 0);
END
$$;

GRANT EXECUTE ON FUNCTION tally.keep_damage TO tally_app, tally_maintenance;
