-- Record the position and id of every event that is deleted, so that a retry of it is recognised.
CREATE OR REPLACE FUNCTION tally.note_pruned() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tally.pruned (position, id, org) SELECT position, id, org FROM gone;
    RETURN NULL;
END
$$;
