-- Drop snapshots. `facts` are the ids of the control facts that name them.
CREATE OR REPLACE FUNCTION tally.drop_snapshots(dropped uuid[], facts uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unnamed uuid;
BEGIN
    SELECT gone.id INTO unnamed
    FROM unnest(dropped, facts) AS asked(id, fact)
    JOIN tally.snapshots AS gone ON gone.id = asked.id
    LEFT JOIN tally.events AS named ON named.id = asked.fact
    WHERE tally.is_foreign(gone.org)
        OR NOT coalesce(
            tally.fact_at(named.position, 'tally.snapshot.dropped') -> 'snapshots' ? encode(uuid_send(gone.id), 'hex'),
            false
        )
    LIMIT 1;
    IF unnamed IS NOT NULL THEN
        RAISE EXCEPTION 'dropping the snapshot % is refused: no control fact of the same transaction names it', unnamed
            USING ERRCODE = 'TL403';
    END IF;
    DELETE FROM tally.snapshots WHERE id = ANY (dropped);
END
$$;

GRANT EXECUTE ON FUNCTION tally.drop_snapshots TO tally_maintenance;
