-- Record every event that is deleted, so that a retry of it is recognised, and that conditions count it.
CREATE OR REPLACE FUNCTION tally.note_pruned() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tally.pruned (position, id, org, type, tags)
    SELECT position, id, org, type, tally.tags_of(meta) FROM gone;
    RETURN NULL;
END
$$;
