-- The index of tags: a posting for each tag of an event, with what conditions ask besides. No hash covers it: the tags
-- are in the meta of the event, and verification compares both. A posting stays when its event is pruned or erased.
CREATE TABLE IF NOT EXISTS event_tags (
    tag TEXT NOT NULL,
    type TEXT NOT NULL,
    position INTEGER NOT NULL,
    org TEXT,
    PRIMARY KEY (tag, type, position)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS event_tags_are_of_events BEFORE INSERT ON event_tags
WHEN EXISTS (SELECT 1 FROM event_tags WHERE tag = NEW.tag AND type = NEW.type AND position = NEW.position)
    OR NOT (
        EXISTS (SELECT 1 FROM events WHERE position = NEW.position AND +type = NEW.type AND +org IS NEW.org)
        OR EXISTS (SELECT 1 FROM pruned WHERE position = NEW.position AND +type = NEW.type AND org IS NEW.org)
    )
BEGIN
    SELECT RAISE(ABORT, 'a tag is indexed once, for an event of that type and org');
END;

CREATE TRIGGER IF NOT EXISTS event_tags_are_not_changed BEFORE UPDATE ON event_tags
BEGIN
    SELECT RAISE(ABORT, 'the tags of an event are immutable');
END;

CREATE TRIGGER IF NOT EXISTS event_tags_are_not_deleted BEFORE DELETE ON event_tags
BEGIN
    SELECT RAISE(ABORT, 'the tags of an event are immutable');
END;
