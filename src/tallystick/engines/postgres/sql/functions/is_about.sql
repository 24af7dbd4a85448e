-- Whether what meta says of org, app and env are texts, and its source_seq is a number. An index finds an org, and its
-- entries are bounded.
CREATE OR REPLACE FUNCTION tally.is_about(meta jsonb) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_typeof(meta -> 'org'), 'string') = 'string'
        AND coalesce(jsonb_typeof(meta -> 'app'), 'string') = 'string'
        AND coalesce(jsonb_typeof(meta -> 'env'), 'string') = 'string'
        AND coalesce(octet_length(meta ->> 'org'), 1) BETWEEN 1 AND 1000
        AND coalesce(tally.is_number(meta -> 'source_seq'), true)
$$;
