-- Store a lease. Its number grows by one; the same number may only be released.
CREATE OR REPLACE FUNCTION tally.put_lease(
    of_stream text, new_number bigint, new_host text, new_pid bigint, new_started bigint, new_handle text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known bigint;
BEGIN
    SELECT number INTO known FROM tally.leases WHERE stream = of_stream FOR UPDATE;
    IF (tally.is_stream(of_stream) AND starts_with(of_stream, 'run/')) IS NOT TRUE
        OR (new_number = coalesce(known, 0) + 1 OR (new_number = known AND new_handle IS NULL)) IS NOT TRUE
        OR EXISTS (SELECT FROM tally.streams WHERE stream = of_stream AND tally.is_foreign(org)) THEN
        RAISE EXCEPTION 'lease % of % is refused', new_number, of_stream USING ERRCODE = 'TL409';
    END IF;
    INSERT INTO tally.leases AS held (stream, number, host, pid, started, handle)
    VALUES (of_stream, new_number, new_host, new_pid, new_started, new_handle)
    ON CONFLICT (stream) DO UPDATE SET number = excluded.number, host = excluded.host, pid = excluded.pid,
        started = excluded.started, handle = excluded.handle;
END
$$;

GRANT EXECUTE ON FUNCTION tally.put_lease TO tally_app, tally_maintenance;
