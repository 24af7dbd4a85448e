-- Whether an erasure is taken over from another store: its event came without a payload. Its control fact is stored,
-- or comes with the rest of the transfer, after the end of the log. check_erasures.sql looks whether it came.
CREATE OR REPLACE FUNCTION tally.is_received(
    erased bigint, of_stream text, of_seq bigint, with_checksum bytea, fact bigint
)
RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM tally.events
        WHERE position = erased AND stream = of_stream AND seq = of_seq AND checksum = with_checksum
            AND payload IS NULL
    ) AND (fact > (SELECT max(position) FROM tally.events) OR EXISTS (
        SELECT FROM (SELECT tally.fact_at(fact, 'tally.erased') AS said) AS named
        WHERE (said ->> 'stream', said ->> 'seq', said ->> 'position', said ->> 'checksum')
            = (of_stream, of_seq::text, erased::text, encode(with_checksum, 'hex'))
    ))
$$;
