-- The tags in meta, each once; NULL if it has no list of them. Most metas have none, and are not parsed.
CREATE OR REPLACE FUNCTION tally.tags_of(meta text) RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN strpos(meta, '"tags"') = 0 AND strpos(meta, '\u') = 0 THEN NULL
        WHEN jsonb_typeof(meta::jsonb -> 'tags') = 'array' THEN ARRAY(
            SELECT DISTINCT tag #>> '{}' COLLATE "C" AS tag
            FROM jsonb_array_elements(meta::jsonb -> 'tags') AS tag
            WHERE jsonb_typeof(tag) = 'string'
            ORDER BY tag
        )
    END
$$;

GRANT EXECUTE ON FUNCTION tally.tags_of TO tally_app, tally_reader, tally_maintenance;
