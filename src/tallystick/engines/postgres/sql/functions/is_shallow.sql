-- Whether JSON is nested less deeply than readers can follow. Its strings are cut out first.
CREATE OR REPLACE FUNCTION tally.is_shallow(given text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rest text := regexp_replace(given, '"([^"\\]|\\.)*"', '', 'g');
BEGIN
    rest := translate(rest, translate(rest, '{}[]', ''), '');
    FOR depth IN 1..254 LOOP
        rest := replace(replace(rest, '{}', ''), '[]', '');
        EXIT WHEN rest = '';
    END LOOP;
    RETURN rest = '';
END
$$;
