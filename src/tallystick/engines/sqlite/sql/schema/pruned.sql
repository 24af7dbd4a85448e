-- Every event that was pruned, so that a retry is recognised, a missing position can be told from a lost one, and the
-- event still counts for conditions. Written by `pruned_events_are_noted`. Formats before 18 kept no type and no org.
CREATE TABLE IF NOT EXISTS pruned (
    position INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    type TEXT,
    org TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS pruned_by_type ON pruned (type);

CREATE TRIGGER IF NOT EXISTS pruned_are_gone BEFORE INSERT ON pruned
WHEN EXISTS (SELECT 1 FROM pruned WHERE position = NEW.position OR id = NEW.id)
    OR EXISTS (SELECT 1 FROM events WHERE position = NEW.position)
    OR EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
    OR NEW.position > coalesce((SELECT max(last_position) FROM cuts), 0)
BEGIN
    SELECT RAISE(ABORT, 'only an event that was pruned is recorded as pruned, and only once');
END;

CREATE TRIGGER IF NOT EXISTS pruned_are_not_changed BEFORE UPDATE ON pruned
BEGIN
    SELECT RAISE(ABORT, 'what was pruned is never forgotten');
END;

CREATE TRIGGER IF NOT EXISTS pruned_are_not_deleted BEFORE DELETE ON pruned
BEGIN
    SELECT RAISE(ABORT, 'what was pruned is never forgotten');
END;
