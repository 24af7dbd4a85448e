-- Two roles more, both of which can do what `tally_app` can. `tally_control` writes the control streams (`tally.*`), and
-- `tally_projector` owns the tables of projections: no login that only appends can attach code to what others write.

RESET ROLE;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['tally_control', 'tally_projector'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
        IF NOT pg_has_role(name, 'tally_app', 'MEMBER') THEN
            EXECUTE format('GRANT tally_app TO %I', name);
        END IF;
    END LOOP;
    -- What is pruned or erased is named by a control fact of the same transaction.
    IF NOT pg_has_role('tally_maintenance', 'tally_control', 'MEMBER') THEN
        GRANT tally_control TO tally_maintenance;
    END IF;
    IF NOT pg_has_role(current_user, 'tally_projector', 'MEMBER') THEN
        EXECUTE format('GRANT tally_projector TO %I', current_user);
    END IF;
END
$$;

-- The tables of before belonged to every login that appends, so anybody may have attached code to them. They are made
-- again from the log by those who run their projections.
DROP SCHEMA tally_views CASCADE;
CREATE SCHEMA tally_views AUTHORIZATION tally_owner;
GRANT USAGE, CREATE ON SCHEMA tally_views TO tally_projector;
GRANT USAGE ON SCHEMA tally_views TO tally_app, tally_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE tally_projector IN SCHEMA tally_views GRANT SELECT ON TABLES TO tally_app;

SET LOCAL ROLE tally_owner;

DELETE FROM tally.views WHERE definition::jsonb ->> 'kind' = 'tables';

-- Drop the tables whose names begin so, as the owner of the schema: dropping runs no code that was attached to a table.
-- A table's name begins with a letter: so the tables of `a`, epoch 1, are told from those of `a_1`.
CREATE FUNCTION tally.drop_view_tables(prefix text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found text;
BEGIN
    IF (prefix ~ '^view_.+_[0-9]+_$') IS NOT TRUE THEN
        RAISE EXCEPTION 'tables are dropped by projection and epoch' USING ERRCODE = 'TL409';
    END IF;
    SELECT string_agg(format('tally_views.%I', relname), ', ') INTO found
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE nspname = 'tally_views' AND relkind IN ('r', 'p') AND starts_with(relname::text, prefix)
        AND substr(relname::text, length(prefix) + 1, 1) ~ '[A-Za-z]';
    IF found IS NOT NULL THEN
        EXECUTE 'DROP TABLE ' || found;
    END IF;
END
$$;

REVOKE ALL ON FUNCTION tally.drop_view_tables FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tally.drop_view_tables TO tally_app;
