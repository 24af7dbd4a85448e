-- Whether the session acts for another org than this one.
CREATE OR REPLACE FUNCTION tally.is_foreign(org text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(pg_catalog.current_setting('tally.org', true), '') <> coalesce(org, ''), false)
$$;

GRANT EXECUTE ON FUNCTION tally.is_foreign TO tally_app, tally_maintenance;
