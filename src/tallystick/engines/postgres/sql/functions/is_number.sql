-- Whether a JSON value is a number that an event may have as its sequence. NULL stays NULL.
CREATE OR REPLACE FUNCTION tally.is_number(given jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN given IS NULL THEN NULL
        WHEN jsonb_typeof(given) <> 'number' OR given::text !~ '^[0-9]{1,19}$' THEN false
        ELSE given::numeric <= 9223372036854775807
    END
$$;
