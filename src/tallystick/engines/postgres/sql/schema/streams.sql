-- The head of each stream.

CREATE TABLE tally.streams (
    stream text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL CHECK (seq > 0),
    link bytea NOT NULL CHECK (octet_length(link) = 32),
    org text COLLATE "C"
) WITH (fillfactor = 80);

CREATE TRIGGER streams_only_grow BEFORE UPDATE ON tally.streams
FOR EACH ROW WHEN (
    NEW.stream <> OLD.stream OR NEW.seq <= OLD.seq OR (OLD.org IS NOT NULL AND NEW.org IS DISTINCT FROM OLD.org)
) EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER streams_are_not_deleted BEFORE DELETE ON tally.streams
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER streams_are_not_truncated BEFORE TRUNCATE ON tally.streams
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

ALTER TABLE tally.streams ENABLE ALWAYS TRIGGER streams_only_grow;
ALTER TABLE tally.streams ENABLE ALWAYS TRIGGER streams_are_not_deleted;
ALTER TABLE tally.streams ENABLE ALWAYS TRIGGER streams_are_not_truncated;

ALTER TABLE tally.streams ENABLE ROW LEVEL SECURITY;
ALTER TABLE tally.streams FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_sees_all ON tally.streams TO tally_owner, tally_maintenance USING (true) WITH CHECK (true);
CREATE POLICY service_sees_its_scope ON tally.streams FOR SELECT TO tally_app USING (
    (SELECT nullif(current_setting('tally.org', true), '')) IS NULL
    OR org = (SELECT nullif(current_setting('tally.org', true), ''))
);
CREATE POLICY tenant_sees_its_org ON tally.streams FOR SELECT TO tally_reader USING (
    org = (SELECT nullif(current_setting('tally.org', true), ''))
    AND stream NOT LIKE 'tally.%'
    AND split_part(stream, '/', 1) NOT IN (SELECT kind FROM tally.infrastructure)
);

GRANT SELECT ON tally.streams TO tally_app, tally_maintenance, tally_reader;
