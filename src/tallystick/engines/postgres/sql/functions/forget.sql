-- Delete the records of commands by number.
CREATE OR REPLACE FUNCTION tally.forget(numbers bigint[]) RETURNS bigint
LANGUAGE sql AS $$
    WITH ranges AS (DELETE FROM tally.command_ranges WHERE command = ANY (numbers)),
    gone AS (DELETE FROM tally.commands WHERE number = ANY (numbers) RETURNING number)
    SELECT count(*) FROM gone
$$;
