-- Refuse an erasure that no control fact of the same transaction names, or that does not match an event.
CREATE OR REPLACE FUNCTION tally.judge_erasure() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fact jsonb := tally.fact_at(NEW.fact_position, 'tally.erased');
    reason text;
BEGIN
    IF fact IS NULL OR (fact ->> 'stream', fact ->> 'seq', fact ->> 'position', fact ->> 'checksum')
        IS DISTINCT FROM (NEW.stream, NEW.seq::text, NEW.position::text, encode(NEW.checksum, 'hex')) THEN
        reason := 'no control fact of the same transaction names it';
    ELSIF NOT EXISTS (
        SELECT FROM tally.events
        WHERE position = NEW.position AND stream = NEW.stream AND seq = NEW.seq AND checksum = NEW.checksum
            AND payload IS NOT NULL
    ) THEN
        reason := 'there is no such payload';
    ELSIF tally.is_foreign(NEW.org)
        OR NEW.org IS DISTINCT FROM (SELECT org FROM tally.streams WHERE stream = NEW.stream) THEN
        reason := 'the stream belongs to another org';
    END IF;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION 'the erasure of % of % is refused: %', NEW.seq, NEW.stream, reason USING ERRCODE = 'TL403';
    END IF;
    RETURN NEW;
END
$$;
