-- Prune a stream. `fact` is the id of the control fact that names the cut.
CREATE OR REPLACE FUNCTION tally.prune(
    of_stream text, through bigint, link bytea, first_position bigint, last_position bigint, count bigint, org text,
    fact uuid
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO tally.cuts VALUES (
        of_stream, through, link, first_position, last_position, count, org,
        coalesce((SELECT named.position FROM tally.events AS named WHERE named.id = fact), 0)
    );
    DELETE FROM tally.events AS gone WHERE gone.stream = of_stream AND gone.seq <= through;
END
$$;

GRANT EXECUTE ON FUNCTION tally.prune TO tally_maintenance;
