-- Since version 17 the right to vacuum can be granted; before, only the owner has it.

DO $$
BEGIN
    IF current_setting('server_version_num')::integer >= 170000 THEN
        EXECUTE 'GRANT MAINTAIN ON tally.events, tally.snapshots, tally.commands, tally.command_ranges
            TO tally_maintenance';
    END IF;
END
$$;
