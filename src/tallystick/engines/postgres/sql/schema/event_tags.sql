-- The tags of every event, pruned or not, by tag and type: one posting for each tag. A trigger on `events` writes it.

CREATE TABLE tally.event_tags (
    tag text COLLATE "C",
    type text COLLATE "C",
    position bigint,
    org text COLLATE "C",
    PRIMARY KEY (tag, type, position) INCLUDE (org)
);

CREATE TRIGGER event_tags_are_not_changed BEFORE UPDATE OR DELETE ON tally.event_tags
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER event_tags_are_not_truncated BEFORE TRUNCATE ON tally.event_tags
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER tags_are_indexed AFTER INSERT ON tally.events
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION tally.index_tags();

ALTER TABLE tally.event_tags ENABLE ALWAYS TRIGGER event_tags_are_not_changed;
ALTER TABLE tally.event_tags ENABLE ALWAYS TRIGGER event_tags_are_not_truncated;
ALTER TABLE tally.events ENABLE ALWAYS TRIGGER tags_are_indexed;

GRANT SELECT ON tally.event_tags TO tally_app, tally_maintenance, tally_reader;
