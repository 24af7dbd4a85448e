-- What a store takes over from another one (`receive`): streams that begin with a cut, and positions that hold nothing.

-- Ranges of positions that were never used in the store that this log comes from: its engine leaves gaps.
CREATE TABLE skipped (
    first INTEGER PRIMARY KEY CHECK (first > 0),
    last INTEGER NOT NULL CHECK (last >= first)
) STRICT;

CREATE TRIGGER skipped_are_behind_the_end BEFORE INSERT ON skipped
WHEN NEW.first <= coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)
    OR EXISTS (SELECT 1 FROM skipped WHERE last >= NEW.first)
BEGIN
    SELECT RAISE(ABORT, 'positions are skipped behind the end of the log alone');
END;

CREATE TRIGGER skipped_are_not_changed BEFORE UPDATE ON skipped
BEGIN
    SELECT RAISE(ABORT, 'what was skipped stays so');
END;

CREATE TRIGGER skipped_are_not_deleted BEFORE DELETE ON skipped
BEGIN
    SELECT RAISE(ABORT, 'what was skipped stays so');
END;

-- A cut has the event that it goes up to, or it is what its stream begins with: then nothing of the stream is there,
-- and the control fact that names it comes with the rest of the transfer. Whether it came is for `check_cuts` to say.
DROP TRIGGER cuts_are_named_by_facts;

CREATE TRIGGER cuts_are_named_by_facts BEFORE INSERT ON cuts
WHEN (
        NOT EXISTS (
            SELECT 1 FROM events
            WHERE position = NEW.fact_position AND type = 'tally.pruned' AND stream >= 'tally.' AND stream < 'tally/'
                AND instr(CAST(payload AS TEXT), '"stream":"' || NEW.stream || '"') > 0
                AND instr(CAST(payload AS TEXT), '"link":"' || lower(hex(NEW.link)) || '"') > 0
                AND instr(replace(CAST(payload AS TEXT), '}', ','), '"through":' || NEW.through || ',') > 0
        )
        OR NOT EXISTS (
            SELECT 1 FROM events
            WHERE stream = NEW.stream AND seq = NEW.through AND link = NEW.link AND position = NEW.last_position
        )
    )
    AND (
        EXISTS (SELECT 1 FROM events)
        OR EXISTS (SELECT 1 FROM streams)
        OR NEW.fact_position <= NEW.last_position
    )
BEGIN
    SELECT RAISE(ABORT, 'a cut needs the control fact that names it, and the event it goes up to');
END;

-- An erasure has its fact and its event, or its event came without a payload and the fact comes with the rest of the
-- transfer, behind the end of the log. Whether it came is for `check_erasures` to say.
DROP TRIGGER erasures_are_named_by_facts;

CREATE TRIGGER erasures_are_named_by_facts BEFORE INSERT ON erasures
WHEN NOT (
        EXISTS (
            SELECT 1 FROM events
            WHERE position = NEW.fact_position AND type = 'tally.erased' AND stream >= 'tally.' AND stream < 'tally/'
                AND instr(CAST(payload AS TEXT), '"stream":"' || NEW.stream || '"') > 0
                AND instr(CAST(payload AS TEXT), '"checksum":"' || lower(hex(NEW.checksum)) || '"') > 0
                AND instr(replace(CAST(payload AS TEXT), '}', ','), '"seq":' || NEW.seq || ',') > 0
        )
        OR (
            EXISTS (SELECT 1 FROM events WHERE position = NEW.position AND payload IS NULL)
            AND NEW.fact_position > (SELECT max(position) FROM events)
        )
    )
    OR NOT EXISTS (
        SELECT 1 FROM events
        WHERE position = NEW.position AND stream = NEW.stream AND seq = NEW.seq AND checksum = NEW.checksum
    )
BEGIN
    SELECT RAISE(ABORT, 'an erasure needs the control fact that names it, and the event it is about');
END;
