-- Roles that nobody logs in as. A service's own role is granted `tally_app`, a tenant's reader `tally_reader`.
-- `tally_control` writes the control streams (`tally.*`), and `tally_projector` owns the tables of projections: a login
-- that only appends cannot attach code to what others write. Both can do what `tally_app` can.
-- Roles belong to the whole server: another database may have created them already.

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'tally_owner', 'tally_maintenance', 'tally_app', 'tally_reader', 'tally_control', 'tally_projector'
    ] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            -- A service may become a tenant's reader, but has none of its rights or row policies before it does.
            EXECUTE format('CREATE ROLE %I NOLOGIN %s', name, CASE name WHEN 'tally_app' THEN 'NOINHERIT' ELSE '' END);
        END IF;
    END LOOP;
    FOREACH name IN ARRAY ARRAY['tally_owner', 'tally_projector'] LOOP
        IF NOT pg_has_role(current_user, name, 'MEMBER') THEN
            EXECUTE format('GRANT %I TO %I', name, current_user);
        END IF;
    END LOOP;
    FOREACH name IN ARRAY ARRAY['tally_control', 'tally_projector'] LOOP
        IF NOT pg_has_role(name, 'tally_app', 'MEMBER') THEN
            EXECUTE format('GRANT tally_app TO %I', name);
        END IF;
    END LOOP;
    IF NOT pg_has_role('tally_app', 'tally_reader', 'MEMBER') THEN
        GRANT tally_reader TO tally_app;
    END IF;
    -- What is pruned or erased is named by a control fact of the same transaction.
    IF NOT pg_has_role('tally_maintenance', 'tally_control', 'MEMBER') THEN
        GRANT tally_control TO tally_maintenance;
    END IF;
    -- So that `tally doctor` can say how long a stuck appender has been stuck. Without it, it still names the process.
    IF NOT pg_has_role('tally_owner', 'pg_read_all_stats', 'MEMBER') THEN
        BEGIN
            GRANT pg_read_all_stats TO tally_owner;
        EXCEPTION WHEN insufficient_privilege THEN
            NULL;
        END;
    END IF;
END
$$;
