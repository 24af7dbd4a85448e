-- Whether an array is a plain list of `size` elements, counted from 1. With any other bounds, slices of it are empty.
CREATE OR REPLACE FUNCTION tally.is_list(given anyarray, size integer) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT array_ndims(given) = 1 AND array_lower(given, 1) = 1 AND array_upper(given, 1) = size
$$;
