-- Fill in the positions and the last link of what a command appended. The events were written earlier in the same
-- transaction; a command cannot name events that do not exist or belong to another org.
CREATE OR REPLACE FUNCTION tally.place_range() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT position INTO NEW.first_position FROM tally.events
    WHERE stream = NEW.stream AND seq = NEW.first_seq AND NOT tally.is_foreign(org);
    SELECT position, link INTO NEW.last_position, NEW.link FROM tally.events
    WHERE stream = NEW.stream AND seq = NEW.last_seq AND NOT tally.is_foreign(org);
    IF NEW.first_position IS NULL OR NEW.last_position IS NULL THEN
        RAISE EXCEPTION 'the command is refused: no events % to % of %', NEW.first_seq, NEW.last_seq, NEW.stream
            USING ERRCODE = 'TL409';
    END IF;
    RETURN NEW;
END
$$;
