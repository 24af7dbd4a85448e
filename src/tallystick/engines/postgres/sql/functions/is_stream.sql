-- Whether a text is the name of a stream.
CREATE OR REPLACE FUNCTION tally.is_stream(name text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN starts_with(name, 'run/') THEN name ~ '^run/[a-z0-9][a-z0-9_.:@=+-]{0,190}$'
        ELSE name ~ '^[a-z][a-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.:@=+-]{0,190}$' END
$$;
