-- Every event that was pruned, so that a retry of it is always recognised, and what conditions ask of it. Its postings in
-- `event_tags` stay. `type` and `tags` are NULL if an earlier version pruned it; such an event has no tags. A trigger on
-- `events` writes it.

CREATE TABLE tally.pruned (
    position bigint PRIMARY KEY,
    id uuid NOT NULL,
    org text COLLATE "C",
    type text COLLATE "C",
    tags text[] COLLATE "C"
);

CREATE UNIQUE INDEX pruned_by_id ON tally.pruned (id);
CREATE INDEX pruned_by_type ON tally.pruned (type, position);

CREATE TRIGGER pruned_are_not_changed BEFORE UPDATE OR DELETE ON tally.pruned
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER pruned_are_not_truncated BEFORE TRUNCATE ON tally.pruned
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

ALTER TABLE tally.pruned ENABLE ALWAYS TRIGGER pruned_are_not_changed;
ALTER TABLE tally.pruned ENABLE ALWAYS TRIGGER pruned_are_not_truncated;

GRANT SELECT ON tally.pruned TO tally_app, tally_maintenance, tally_reader;
