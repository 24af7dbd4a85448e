-- Triggers with messages in plain words, and one with another name.

DROP TRIGGER cuts_only_grow;
DROP TRIGGER pruned_are_gone;
DROP TRIGGER skipped_are_behind_the_end;
DROP TRIGGER skipped_are_not_changed;
DROP TRIGGER skipped_are_not_deleted;
DROP TRIGGER snapshots_are_named_by_facts;

CREATE TRIGGER cuts_only_grow BEFORE INSERT ON cuts
WHEN NEW.stream >= 'tally.' AND NEW.stream < 'tally/'
    OR EXISTS (
        SELECT 1 FROM cuts
        WHERE stream = NEW.stream AND (through >= NEW.through OR last_position >= NEW.last_position
            OR count >= NEW.count OR first_position <> NEW.first_position OR fact_position >= NEW.fact_position)
    )
BEGIN
    SELECT RAISE(ABORT, 'a cut goes further than the one before it, and control facts are never cut');
END;

CREATE TRIGGER pruned_are_gone BEFORE INSERT ON pruned
WHEN EXISTS (SELECT 1 FROM pruned WHERE position = NEW.position OR id = NEW.id)
    OR EXISTS (SELECT 1 FROM events WHERE position = NEW.position)
    OR EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
    OR NEW.position > coalesce((SELECT max(last_position) FROM cuts), 0)
BEGIN
    SELECT RAISE(ABORT, 'only an event that was pruned is recorded as pruned, and only once');
END;

CREATE TRIGGER skipped_are_after_the_end BEFORE INSERT ON skipped
WHEN NEW.first <= coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)
    OR EXISTS (SELECT 1 FROM skipped WHERE last >= NEW.first)
BEGIN
    SELECT RAISE(ABORT, 'only positions after the end of the log can be skipped');
END;

CREATE TRIGGER skipped_are_not_changed BEFORE UPDATE ON skipped
BEGIN
    SELECT RAISE(ABORT, 'a skipped position stays skipped');
END;

CREATE TRIGGER skipped_are_not_deleted BEFORE DELETE ON skipped
BEGIN
    SELECT RAISE(ABORT, 'a skipped position stays skipped');
END;

CREATE TRIGGER snapshots_are_named_by_facts BEFORE INSERT ON snapshots
WHEN NOT EXISTS (SELECT 1 FROM events WHERE id = NEW.snapshot_id AND type = 'tally.snapshotted')
BEGIN
    SELECT RAISE(ABORT, 'a snapshot needs the control fact that names it');
END;
