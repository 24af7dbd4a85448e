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

GRANT SELECT ON tally.streams TO tally_app, tally_maintenance, tally_reader;
