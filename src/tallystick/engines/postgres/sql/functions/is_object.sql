-- Whether a text is one JSON object on one line, without duplicate keys (from PostgreSQL 16) and not nested too
-- deeply, so that all readers understand it alike. A text that is short or has few brackets is not deep.
DO $do$
BEGIN
    EXECUTE format(
        $create$
        CREATE OR REPLACE FUNCTION tally.is_object(given text) RETURNS boolean
        LANGUAGE sql STABLE AS $$
            SELECT given = '{}' OR (
                %s AND strpos(given, E'\n') = 0 AND strpos(given, E'\r') = 0
                AND (
                    octet_length(given) < 508
                    OR octet_length(given) - octet_length(replace(replace(given, '[', ''), '{', '')) < 255
                    OR tally.is_shallow(given)
                )
            )
        $$
        $create$,
        CASE WHEN current_setting('server_version_num')::integer >= 160000
            THEN 'given IS JSON OBJECT WITH UNIQUE KEYS' ELSE $old$json_typeof(given::json) = 'object'$old$ END
    );
END
$do$;
