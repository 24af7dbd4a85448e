-- Whether the tags in meta are labels (no list), or a list of at most 32 texts of 1 to 256 bytes.
CREATE OR REPLACE FUNCTION tally.is_tagging(tags jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN jsonb_typeof(tags) = 'array' THEN jsonb_array_length(tags) <= 32 AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(tags) AS tag
        WHERE (jsonb_typeof(tag) = 'string' AND octet_length(tag #>> '{}') BETWEEN 1 AND 256) IS NOT TRUE
    ) ELSE true END
$$;
