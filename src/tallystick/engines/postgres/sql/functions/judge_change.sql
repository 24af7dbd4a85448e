-- Refuse to delete an event that no cut covers, and to change one, except that its payload is emptied and an erasure
-- names it.
CREATE OR REPLACE FUNCTION tally.judge_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    emptied tally.events;
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT FROM tally.cuts WHERE stream = OLD.stream AND through >= OLD.seq) THEN
            RETURN OLD;
        END IF;
    ELSIF OLD.payload IS NOT NULL THEN
        emptied := OLD;
        emptied.payload := NULL;
        IF NEW IS NOT DISTINCT FROM emptied
            AND EXISTS (SELECT FROM tally.erasures WHERE position = OLD.position AND checksum = OLD.checksum) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'events are immutable: % is refused', TG_OP USING ERRCODE = 'TL403';
END
$$;
