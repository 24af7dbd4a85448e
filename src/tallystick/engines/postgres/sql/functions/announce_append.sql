-- Take the lock that readers look at before a position is drawn, by whatever statement (see prove.sql), and refuse
-- every append while damage is on record.
CREATE OR REPLACE FUNCTION tally.announce_append() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM tally.damage WHERE NOT settling) THEN
        RAISE EXCEPTION 'damage is on record' USING ERRCODE = 'TL500';
    END IF;
    RETURN NULL;
END
$$;
