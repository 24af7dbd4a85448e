-- The last sequence of each source within its org. A number that is left in `tally.sources` counts for every org.
CREATE OR REPLACE FUNCTION tally.heads_of_sources(orgs text[], names text[])
RETURNS TABLE (org text, source text, seq bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT asked.org, asked.source, greatest(known.seq, before.seq)
    FROM unnest(orgs, names) AS asked(org, source)
    LEFT JOIN tally.org_sources AS known ON known.org = asked.org AND known.source = asked.source
    LEFT JOIN tally.sources AS before ON before.source = asked.source
    WHERE (known.seq IS NOT NULL OR before.seq IS NOT NULL) AND NOT tally.is_foreign(asked.org)
$$;

GRANT EXECUTE ON FUNCTION tally.heads_of_sources TO tally_app;
