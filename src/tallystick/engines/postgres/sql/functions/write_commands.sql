-- Record commands that were judged under the locks of begin_append, in the transaction of their events. `range_of`
-- counts the commands from 1.
CREATE OR REPLACE FUNCTION tally.write_commands(
    orgs text[], actors text[], endpoints text[], keys text[], hashes bytea[], responses bytea[], times bigint[],
    range_of integer[], range_part integer[], range_stream text[], range_first bigint[], range_last bigint[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF EXISTS (SELECT FROM unnest(orgs) AS named(org) WHERE tally.is_foreign(named.org)) THEN
        RAISE EXCEPTION 'the command is refused: it belongs to another org' USING ERRCODE = 'TL409';
    END IF;
    WITH given AS (
        SELECT *
        FROM unnest(orgs, actors, endpoints, keys, hashes, responses, times) WITH ORDINALITY
            AS each(org, actor, endpoint, key, request_hash, response, recorded, n)
    ), written AS (
        INSERT INTO tally.commands (org, actor, endpoint, key, request_hash, response, recorded)
        SELECT org, actor, endpoint, key, request_hash, response, recorded FROM given ORDER BY n
        RETURNING org, actor, endpoint, key, number
    )
    INSERT INTO tally.command_ranges (command, part, stream, first_seq, last_seq, org)
    SELECT written.number, each.part, each.stream, each.first_seq, each.last_seq, written.org
    FROM unnest(range_of, range_part, range_stream, range_first, range_last)
        AS each(n, part, stream, first_seq, last_seq)
    JOIN given ON given.n = each.n
    JOIN written ON (written.org, written.actor, written.endpoint, written.key)
        = (given.org, given.actor, given.endpoint, given.key);
END
$$;

GRANT EXECUTE ON FUNCTION tally.write_commands TO tally_app, tally_maintenance;
