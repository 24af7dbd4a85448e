-- Four roles that nobody logs in as. A service's own role is granted `tally_app`, a tenant's reader `tally_reader`.
-- Roles belong to the whole server: another database may have made them already.

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['tally_owner', 'tally_maintenance', 'tally_app', 'tally_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            -- A service may become a tenant's reader, but has none of its rights or row policies before it does.
            EXECUTE format('CREATE ROLE %I NOLOGIN %s', name, CASE name WHEN 'tally_app' THEN 'NOINHERIT' ELSE '' END);
        END IF;
    END LOOP;
    IF NOT pg_has_role(current_user, 'tally_owner', 'MEMBER') THEN
        EXECUTE format('GRANT tally_owner TO %I', current_user);
    END IF;
    IF NOT pg_has_role('tally_app', 'tally_reader', 'MEMBER') THEN
        GRANT tally_reader TO tally_app;
    END IF;
    -- So that `tally doctor` can say since when a stuck appender is stuck. Without it, it still names the process.
    IF NOT pg_has_role('tally_owner', 'pg_read_all_stats', 'MEMBER') THEN
        BEGIN
            GRANT pg_read_all_stats TO tally_owner;
        EXCEPTION WHEN insufficient_privilege THEN
            NULL;
        END;
    END IF;
END
$$;

CREATE SCHEMA tally AUTHORIZATION tally_owner;

GRANT USAGE ON SCHEMA tally TO tally_maintenance, tally_app, tally_reader;
