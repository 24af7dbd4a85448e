-- Continue the proof that is kept in `tally.proven`, and publish what is proven. NULL if another session is doing it.
-- The row is not worth an fsync of its own, but a transaction that has already written something keeps its setting.
CREATE OR REPLACE FUNCTION tally.advance() RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known tally.proven;
    found record;
    fresh boolean := pg_current_xact_id_if_assigned() IS NULL;
BEGIN
    SELECT * INTO known FROM tally.proven FOR UPDATE SKIP LOCKED;
    IF known.one IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT * INTO found FROM tally.prove(known.position, known.pending, known.holders);
    IF fresh THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF (found.head, found.pending) IS DISTINCT FROM (known.position, known.pending) THEN
        UPDATE tally.proven SET position = found.head, pending = found.pending, holders = found.holders;
    END IF;
    RETURN found.head;
END
$$;

GRANT EXECUTE ON FUNCTION tally.advance TO tally_app, tally_maintenance;
