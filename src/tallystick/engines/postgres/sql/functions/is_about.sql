-- Whether what meta says of org, app and env are texts, its source_seq is a number, and a list of tags is one. Indexes
-- find an org and tags, and their entries are bounded.
CREATE OR REPLACE FUNCTION tally.is_about(meta jsonb) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_typeof(meta -> 'org'), 'string') = 'string'
        AND coalesce(jsonb_typeof(meta -> 'app'), 'string') = 'string'
        AND coalesce(jsonb_typeof(meta -> 'env'), 'string') = 'string'
        AND coalesce(octet_length(meta ->> 'org'), 1) BETWEEN 1 AND 1000
        AND coalesce(tally.is_number(meta -> 'source_seq'), true)
        AND (meta -> 'tags' IS NULL OR tally.is_tagging(meta -> 'tags'))
$$;
