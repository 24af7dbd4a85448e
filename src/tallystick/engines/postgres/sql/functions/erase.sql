-- Erase a payload. `fact` is the id of the control fact that names it.
CREATE OR REPLACE FUNCTION tally.erase("position" bigint, of_stream text, seq bigint, checksum bytea, fact uuid)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO tally.erasures VALUES (
        position, of_stream, seq, checksum, (SELECT head.org FROM tally.streams AS head WHERE head.stream = of_stream),
        coalesce((SELECT named.position FROM tally.events AS named WHERE named.id = fact), 0)
    );
    UPDATE tally.events AS erased SET payload = NULL WHERE erased.position = erase.position;
END
$$;

GRANT EXECUTE ON FUNCTION tally.erase TO tally_maintenance;
