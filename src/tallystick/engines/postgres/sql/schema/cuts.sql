-- One row per prune, never changed: the row of a stream with the highest `through` says what is gone of it.

CREATE TABLE tally.cuts (
    stream text COLLATE "C" NOT NULL CHECK (stream NOT LIKE 'tally.%'),
    through bigint NOT NULL CHECK (through > 0),
    link bytea NOT NULL CHECK (octet_length(link) = 32),
    first_position bigint NOT NULL CHECK (first_position > 0),
    last_position bigint NOT NULL CHECK (last_position >= first_position),
    count bigint NOT NULL CHECK (count = through),
    org text COLLATE "C",
    fact_position bigint NOT NULL,
    PRIMARY KEY (stream, through)
);

CREATE INDEX cuts_by_position ON tally.cuts (last_position);

-- The first cut of a stream that is received from another store comes before its control fact.
CREATE TRIGGER cuts_are_named_by_facts BEFORE INSERT ON tally.cuts
FOR EACH ROW WHEN (NOT tally.is_founding(NEW.fact_position, NEW.last_position))
EXECUTE FUNCTION tally.judge_cut();

CREATE TRIGGER cuts_are_not_changed BEFORE UPDATE OR DELETE ON tally.cuts
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER cuts_are_not_truncated BEFORE TRUNCATE ON tally.cuts
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

ALTER TABLE tally.cuts ENABLE ALWAYS TRIGGER cuts_are_named_by_facts;
ALTER TABLE tally.cuts ENABLE ALWAYS TRIGGER cuts_are_not_changed;
ALTER TABLE tally.cuts ENABLE ALWAYS TRIGGER cuts_are_not_truncated;

GRANT SELECT ON tally.cuts TO tally_app, tally_maintenance, tally_reader;
