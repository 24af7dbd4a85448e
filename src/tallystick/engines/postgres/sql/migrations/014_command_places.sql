-- Where the events of a command are: positions and last link. They stay when the events are pruned.

ALTER TABLE tally.command_ranges
    ADD COLUMN first_position bigint, ADD COLUMN last_position bigint, ADD COLUMN link bytea;

UPDATE tally.command_ranges AS ranges SET first_position = first.position, last_position = last.position, link = last.link
FROM tally.events AS first, tally.events AS last
WHERE first.stream = ranges.stream AND first.seq = ranges.first_seq
    AND last.stream = ranges.stream AND last.seq = ranges.last_seq;

-- The events were written before, in the same transaction: nobody can say that they are elsewhere.
CREATE FUNCTION tally.place_range() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT position INTO NEW.first_position FROM tally.events WHERE stream = NEW.stream AND seq = NEW.first_seq;
    SELECT position, link INTO NEW.last_position, NEW.link
    FROM tally.events WHERE stream = NEW.stream AND seq = NEW.last_seq;
    RETURN NEW;
END
$$;

REVOKE ALL ON FUNCTION tally.place_range FROM PUBLIC;

CREATE TRIGGER command_ranges_are_placed BEFORE INSERT ON tally.command_ranges
FOR EACH ROW EXECUTE FUNCTION tally.place_range();
