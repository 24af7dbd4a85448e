-- Refuse a change of a table that only grows.
CREATE OR REPLACE FUNCTION tally.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'tally.% only grows: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'TL403';
END
$$;
