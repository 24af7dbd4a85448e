-- What was found damaged and is not settled. While a row is here that is not being settled, nothing is appended.

CREATE TABLE tally.damage (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    what text NOT NULL,
    reason text NOT NULL,
    position bigint NOT NULL,
    stream text NOT NULL,
    seq bigint NOT NULL,
    found timestamptz NOT NULL DEFAULT now(),
    settling boolean NOT NULL DEFAULT false
);

-- As in 010, and refuses while damage is on record. Every append passes here, whoever sends it.
CREATE OR REPLACE FUNCTION tally.announce_append() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    held boolean;
BEGIN
    held := pg_catalog.pg_advisory_xact_lock_shared(1952541804, 1) IS NOT NULL;
    IF EXISTS (SELECT FROM tally.damage WHERE NOT settling) THEN
        RAISE EXCEPTION 'damage is on record' USING ERRCODE = 'TL500';
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION tally.known_damage(kept_max integer)
RETURNS TABLE (what text, reason text, "position" bigint, stream text, seq bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT what, reason, position, stream, seq FROM tally.damage ORDER BY number LIMIT kept_max
$$;

-- Put findings on record. What is there already is not repeated, and what was being settled is damage again.
CREATE FUNCTION tally.keep_damage(
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

-- The store was verified: let the control fact about it be appended, and then forget what it names.
CREATE FUNCTION tally.settle_damage(is_settling boolean) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE tally.damage SET settling = is_settling WHERE settling <> is_settling
$$;

CREATE FUNCTION tally.forget_settled_damage() RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM tally.damage WHERE settling
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tally FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tally.known_damage, tally.keep_damage TO tally_app, tally_maintenance;
GRANT EXECUTE ON FUNCTION tally.settle_damage, tally.forget_settled_damage TO tally_maintenance;
