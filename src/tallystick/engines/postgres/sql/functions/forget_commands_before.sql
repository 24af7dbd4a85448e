-- Delete up to `commands_max` records of commands that took effect before a moment.
CREATE OR REPLACE FUNCTION tally.forget_commands_before(moment bigint, commands_max bigint) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT tally.forget(array_agg(old.number))
    FROM (
        SELECT number FROM tally.commands
        WHERE recorded < moment AND NOT tally.is_foreign(org)
        ORDER BY recorded LIMIT commands_max
    ) AS old
$$;

GRANT EXECUTE ON FUNCTION tally.forget_commands_before TO tally_maintenance;
