-- Record the last sequence of sources, each within its org.
CREATE OR REPLACE FUNCTION tally.move_sources(orgs text[], names text[], seqs bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(orgs, names) AS given(org, source) WHERE tally.is_foreign(org)
        OR (source <> '' AND octet_length(source) <= 1000 AND octet_length(org) <= 1000) IS NOT TRUE) THEN
        RAISE EXCEPTION 'the sequence of a source is refused: it belongs to another org, or its name is too long'
            USING ERRCODE = 'TL409';
    END IF;
    INSERT INTO tally.org_sources AS known (org, source, seq)
    SELECT given.org, given.source, given.seq
    FROM unnest(orgs, names, seqs) AS given(org, source, seq)
    ORDER BY given.org, given.source
    ON CONFLICT (org, source) DO UPDATE SET seq = greatest(known.seq, excluded.seq);
END
$$;

GRANT EXECUTE ON FUNCTION tally.move_sources TO tally_app;
