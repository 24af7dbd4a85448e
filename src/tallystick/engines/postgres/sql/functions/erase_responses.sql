-- Empty the responses of commands.
CREATE OR REPLACE FUNCTION tally.erase_responses(orgs text[], actors text[], endpoints text[], keys text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE tally.commands AS known SET response = ''::bytea
    FROM unnest(orgs, actors, endpoints, keys) AS asked(org, actor, endpoint, key)
    WHERE (known.org, known.actor, known.endpoint, known.key) = (asked.org, asked.actor, asked.endpoint, asked.key)
        AND NOT tally.is_foreign(known.org)
$$;

GRANT EXECUTE ON FUNCTION tally.erase_responses TO tally_maintenance;
