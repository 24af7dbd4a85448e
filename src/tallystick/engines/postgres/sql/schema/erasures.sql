-- One row per erased payload, never changed.

CREATE TABLE tally.erasures (
    position bigint PRIMARY KEY,
    stream text COLLATE "C" NOT NULL CHECK (stream NOT LIKE 'tally.%'),
    seq bigint NOT NULL,
    checksum bytea NOT NULL CHECK (octet_length(checksum) = 32),
    org text COLLATE "C",
    fact_position bigint NOT NULL
);

-- An erasure that is received from another store comes with an event that has no payload any more.
CREATE TRIGGER erasures_are_named_by_facts BEFORE INSERT ON tally.erasures
FOR EACH ROW WHEN (NOT tally.is_received(NEW.position, NEW.stream, NEW.seq, NEW.checksum, NEW.fact_position))
EXECUTE FUNCTION tally.judge_erasure();

CREATE TRIGGER erasures_are_not_changed BEFORE UPDATE OR DELETE ON tally.erasures
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER erasures_are_not_truncated BEFORE TRUNCATE ON tally.erasures
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

ALTER TABLE tally.erasures ENABLE ALWAYS TRIGGER erasures_are_named_by_facts;
ALTER TABLE tally.erasures ENABLE ALWAYS TRIGGER erasures_are_not_changed;
ALTER TABLE tally.erasures ENABLE ALWAYS TRIGGER erasures_are_not_truncated;

GRANT SELECT ON tally.erasures TO tally_app, tally_maintenance, tally_reader;
