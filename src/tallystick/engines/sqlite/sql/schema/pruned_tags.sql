-- The tags of every pruned event, by position: its meta is gone, and `event_tags` is in order of tag.
CREATE TABLE IF NOT EXISTS pruned_tags (
    position INTEGER NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (position, tag)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS pruned_tags_are_of_pruned_events BEFORE INSERT ON pruned_tags
WHEN EXISTS (SELECT 1 FROM pruned_tags WHERE position = NEW.position AND tag = NEW.tag)
    OR NOT (
        EXISTS (SELECT 1 FROM pruned WHERE position = NEW.position)
        OR EXISTS (
            SELECT 1 FROM events JOIN cuts ON cuts.stream = events.stream AND cuts.through >= events.seq
            WHERE events.position = NEW.position
        )
    )
BEGIN
    SELECT RAISE(ABORT, 'only tags of events that are pruned are kept here, each once');
END;

CREATE TRIGGER IF NOT EXISTS pruned_tags_are_not_changed BEFORE UPDATE ON pruned_tags
BEGIN
    SELECT RAISE(ABORT, 'what was pruned is never forgotten');
END;

CREATE TRIGGER IF NOT EXISTS pruned_tags_are_not_deleted BEFORE DELETE ON pruned_tags
BEGIN
    SELECT RAISE(ABORT, 'what was pruned is never forgotten');
END;
