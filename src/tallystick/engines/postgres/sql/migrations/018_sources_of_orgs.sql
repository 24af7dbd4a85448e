-- A source counts once for each org that its events name; '' stands for events that name none. What is left in `sources`
-- are numbers of events that were pruned before this step: nobody can say whose they were, so they count for every org.

CREATE TABLE tally.org_sources (
    org text COLLATE "C",
    source text COLLATE "C",
    seq bigint NOT NULL,
    PRIMARY KEY (org, source)
);

INSERT INTO tally.org_sources (org, source, seq)
SELECT coalesce(meta::jsonb ->> 'org', ''), meta::jsonb ->> 'source',
    max(CASE WHEN tally.is_number(meta::jsonb -> 'source_seq') THEN (meta::jsonb ->> 'source_seq')::bigint END)
FROM tally.events
WHERE EXISTS (SELECT FROM tally.sources) AND meta LIKE '%"source_seq":%'
    AND tally.is_number(meta::jsonb -> 'source_seq') AND jsonb_typeof(meta::jsonb -> 'source') = 'string'
GROUP BY 1, 2;

DELETE FROM tally.sources
WHERE NOT EXISTS (SELECT FROM tally.cuts) -- a pruned event of another org may have had any number up to this one
    AND seq <= (SELECT max(seq) FROM tally.org_sources WHERE org_sources.source = sources.source);

DROP FUNCTION tally.heads_of_sources(text[]);
DROP FUNCTION tally.move_sources(text[], bigint[]);

CREATE FUNCTION tally.heads_of_sources(orgs text[], names text[]) RETURNS TABLE (org text, source text, seq bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT asked.org, asked.source, greatest(known.seq, before.seq)
    FROM unnest(orgs, names) AS asked(org, source)
    LEFT JOIN tally.org_sources AS known ON known.org = asked.org AND known.source = asked.source
    LEFT JOIN tally.sources AS before ON before.source = asked.source
    WHERE (known.seq IS NOT NULL OR before.seq IS NOT NULL) AND NOT tally.is_foreign(asked.org)
$$;

CREATE FUNCTION tally.move_sources(orgs text[], names text[], seqs bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(orgs, names) AS given(org, source) WHERE tally.is_foreign(org)
        OR (source <> '' AND octet_length(source) <= 1000 AND octet_length(org) <= 1000) IS NOT TRUE) THEN
        RAISE EXCEPTION 'the sequence of a source is refused: it is of another org, or its name is too long'
            USING ERRCODE = 'TL409';
    END IF;
    INSERT INTO tally.org_sources AS known (org, source, seq)
    SELECT given.org, given.source, given.seq
    FROM unnest(orgs, names, seqs) AS given(org, source, seq)
    ORDER BY given.org, given.source
    ON CONFLICT (org, source) DO UPDATE SET seq = greatest(known.seq, excluded.seq);
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tally FROM PUBLIC;
REVOKE SELECT ON tally.sources, tally.leases FROM tally_app, tally_maintenance;
GRANT EXECUTE ON FUNCTION tally.heads_of_sources, tally.move_sources TO tally_app;
