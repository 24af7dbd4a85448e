-- Refuse an event by name. It returns the type of a link, so that it can be called in its place.
CREATE OR REPLACE FUNCTION tally.refuse_row(stream text, seq bigint, reason text) RETURNS bytea
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'event % of % is refused: %', seq, stream, reason USING ERRCODE = 'TL409';
END
$$;
