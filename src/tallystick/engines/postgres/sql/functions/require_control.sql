-- Refuse a control stream, unless the caller acts as `tally_control` or as a role that has its rights. The rights of a
-- SECURITY DEFINER function's owner do not count.
CREATE OR REPLACE FUNCTION tally.require_control(stream text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user)::name, 'tally_control', 'USAGE') THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'permission denied for stream %: control streams are written by tally_control', stream
        USING ERRCODE = 'insufficient_privilege';
END
$$;
