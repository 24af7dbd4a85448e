-- Refuse a cut that no control fact of the same transaction names, or that does not match the events.
CREATE OR REPLACE FUNCTION tally.judge_cut() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fact jsonb := tally.fact_at(NEW.fact_position, 'tally.pruned');
    before tally.cuts;
    reason text;
BEGIN
    SELECT * INTO before FROM tally.cuts WHERE stream = NEW.stream ORDER BY through DESC LIMIT 1;
    IF fact IS NULL OR (
        fact ->> 'stream', fact ->> 'through', fact ->> 'link', fact ->> 'first_position', fact ->> 'last_position',
        fact ->> 'count', fact ->> 'org'
    ) IS DISTINCT FROM (
        NEW.stream, NEW.through::text, encode(NEW.link, 'hex'), NEW.first_position::text, NEW.last_position::text,
        NEW.count::text, NEW.org
    ) THEN
        reason := 'no control fact of the same transaction names it';
    ELSIF NEW.through <= before.through OR NEW.first_position <> before.first_position THEN
        reason := 'it does not follow the previous cut';
    ELSIF before.stream IS NULL AND NOT EXISTS (
        SELECT FROM tally.events WHERE stream = NEW.stream AND seq = 1 AND position = NEW.first_position
    ) THEN
        reason := 'it does not begin at the first event';
    ELSIF NOT EXISTS (
        SELECT FROM tally.events
        WHERE stream = NEW.stream AND seq = NEW.through AND link = NEW.link AND position = NEW.last_position
    ) THEN
        reason := 'there is no such event at its end';
    ELSIF tally.is_foreign(NEW.org)
        OR NEW.org IS DISTINCT FROM (SELECT org FROM tally.streams WHERE stream = NEW.stream) THEN
        reason := 'the stream belongs to another org';
    END IF;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION 'the cut of % at % is refused: %', NEW.stream, NEW.through, reason USING ERRCODE = 'TL403';
    END IF;
    RETURN NEW;
END
$$;
