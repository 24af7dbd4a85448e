-- Whether the event at a position was pruned, for a caller who may see that a query matches it.
CREATE OR REPLACE FUNCTION tally.was_pruned(at bigint) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM tally.pruned WHERE position = at AND NOT tally.is_foreign(org))
$$;

GRANT EXECUTE ON FUNCTION tally.was_pruned TO tally_app, tally_maintenance, tally_reader;
