-- The index of tags, and what conditions ask of pruned events. Events that are stored already have no lists of tags. The
-- types of what was pruned before are not known.

CREATE TABLE tally_locks.tag_gate ();

ALTER TABLE tally.pruned ADD COLUMN type text COLLATE "C", ADD COLUMN tags text[] COLLATE "C";
CREATE INDEX pruned_by_type ON tally.pruned (type, position);

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

ALTER TABLE tally.event_tags ENABLE ROW LEVEL SECURITY;
ALTER TABLE tally.event_tags FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_sees_all ON tally.event_tags TO tally_owner, tally_maintenance USING (true) WITH CHECK (true);
CREATE POLICY service_sees_its_scope ON tally.event_tags FOR SELECT TO tally_app
USING (
    (SELECT nullif(current_setting('tally.org', true), '')) IS NULL
    OR org = (SELECT nullif(current_setting('tally.org', true), ''))
);
CREATE POLICY tenant_sees_its_org ON tally.event_tags FOR SELECT TO tally_reader
USING (
    org = (SELECT nullif(current_setting('tally.org', true), ''))
    AND EXISTS (SELECT FROM tally.events WHERE events.position = event_tags.position)
);

DROP FUNCTION IF EXISTS tally.take_turn(integer, integer);
