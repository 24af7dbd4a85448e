-- Refuse a snapshot without its control fact, from the same transaction or from the one that a retry repeats.
CREATE OR REPLACE FUNCTION tally.judge_snapshot() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fact jsonb;
BEGIN
    SELECT payload::jsonb INTO fact
    FROM tally.events
    WHERE id = NEW.id AND type = 'tally.snapshotted' AND stream LIKE 'tally.%';
    IF fact IS NULL OR (fact ->> 'stream', fact ->> 'body_hash')
        IS DISTINCT FROM (NEW.stream, encode(sha256(NEW.body), 'hex')) THEN
        RAISE EXCEPTION 'the snapshot % is refused: no control fact names it', NEW.id USING ERRCODE = 'TL403';
    END IF;
    IF tally.is_foreign(NEW.org) THEN
        RAISE EXCEPTION 'the snapshot % is refused: it belongs to another org', NEW.id USING ERRCODE = 'TL403';
    END IF;
    RETURN NEW;
END
$$;
