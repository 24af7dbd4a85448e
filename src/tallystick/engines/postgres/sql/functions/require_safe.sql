-- Refuse a transaction whose isolation level or durability does not suit an append.
CREATE OR REPLACE FUNCTION tally.require_safe() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'appends need READ COMMITTED, to read what a lock protects after they have taken it'
            USING ERRCODE = 'TL409';
    END IF;
    IF pg_catalog.current_setting('synchronous_commit') = 'off' THEN
        RAISE EXCEPTION 'appends need synchronous_commit: an acknowledged append is on disk' USING ERRCODE = 'TL409';
    END IF;
END
$$;
