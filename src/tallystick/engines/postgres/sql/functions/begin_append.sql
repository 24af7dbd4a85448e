-- Lock streams and sources for the rest of the transaction, and return where the streams end. `foreign_org` says that
-- a stream belongs to another org than the session's. Nobody else can then append to these streams.
CREATE OR REPLACE FUNCTION tally.begin_append(to_streams text[], from_sources text[])
RETURNS TABLE (stream text, seq bigint, link bytea, org text, foreign_org boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    scope text := nullif(current_setting('tally.org', true), '');
    key integer;
BEGIN
    PERFORM tally.require_safe();
    IF cardinality(to_streams) + cardinality(from_sources) > 1000 THEN
        LOCK TABLE tally_locks.appending IN SHARE ROW EXCLUSIVE MODE;
    ELSE
        LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
        FOR key IN SELECT DISTINCT hashtext(name) FROM unnest(to_streams) AS name ORDER BY 1 LOOP
            PERFORM tally.take_turn(1952541811, key);
        END LOOP;
        FOR key IN SELECT DISTINCT hashtext(name) FROM unnest(from_sources) AS name ORDER BY 1 LOOP
            PERFORM tally.take_turn(1952541812, key);
        END LOOP;
    END IF;
    RETURN QUERY
        SELECT known.stream, known.seq, known.link, known.org,
            coalesce(scope IS NOT NULL AND known.org IS DISTINCT FROM scope, false)
        FROM tally.streams AS known
        WHERE known.stream = ANY (to_streams);
END
$$;

GRANT EXECUTE ON FUNCTION tally.begin_append TO tally_app, tally_maintenance;
