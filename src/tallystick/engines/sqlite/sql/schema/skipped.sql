-- Ranges of positions that were never used in the store that this log comes from: its engine leaves gaps.
CREATE TABLE IF NOT EXISTS skipped (
    first INTEGER PRIMARY KEY CHECK (first > 0),
    last INTEGER NOT NULL CHECK (last >= first)
) STRICT;

CREATE TRIGGER IF NOT EXISTS skipped_are_after_the_end BEFORE INSERT ON skipped
WHEN NEW.first <= coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)
    OR EXISTS (SELECT 1 FROM skipped WHERE last >= NEW.first)
BEGIN
    SELECT RAISE(ABORT, 'only positions after the end of the log can be skipped');
END;

CREATE TRIGGER IF NOT EXISTS skipped_are_not_changed BEFORE UPDATE ON skipped
BEGIN
    SELECT RAISE(ABORT, 'a skipped position stays skipped');
END;

CREATE TRIGGER IF NOT EXISTS skipped_are_not_deleted BEFORE DELETE ON skipped
BEGIN
    SELECT RAISE(ABORT, 'a skipped position stays skipped');
END;
