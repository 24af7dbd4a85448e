-- Every event that was pruned, so that a retry of it is always recognised. A trigger on `events` writes it.

CREATE TABLE tally.pruned (
    position bigint PRIMARY KEY,
    id uuid NOT NULL,
    org text COLLATE "C"
);

CREATE UNIQUE INDEX pruned_by_id ON tally.pruned (id);

CREATE TRIGGER pruned_are_not_changed BEFORE UPDATE OR DELETE ON tally.pruned
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER pruned_are_not_truncated BEFORE TRUNCATE ON tally.pruned
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

ALTER TABLE tally.pruned ENABLE ALWAYS TRIGGER pruned_are_not_changed;
ALTER TABLE tally.pruned ENABLE ALWAYS TRIGGER pruned_are_not_truncated;

GRANT SELECT ON tally.pruned TO tally_app, tally_maintenance, tally_reader;
