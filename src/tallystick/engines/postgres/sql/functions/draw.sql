-- The first of `count` positions in a row. This is the only way to draw any, so that nobody can draw between them:
-- nextval itself needs no lock, but it must not fall between the two halves of drawing several. The lock is released
-- by undoing the inner block. Neither a drawn position nor a variable is ever undone.
CREATE OR REPLACE FUNCTION tally.draw(count integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    first bigint;
BEGIN
    BEGIN
        IF count = 1 THEN
            LOCK TABLE tally_locks.drawing IN ROW EXCLUSIVE MODE;
            first := pg_catalog.nextval('tally.positions');
        ELSE
            LOCK TABLE tally_locks.drawing IN EXCLUSIVE MODE;
            first := pg_catalog.nextval('tally.positions');
            first := pg_catalog.setval('tally.positions', first + count - 1) - count + 1;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'TL000';
    EXCEPTION WHEN SQLSTATE 'TL000' THEN
        RETURN first;
    END;
END
$$;
