-- One row per prune, never changed: the row with the highest `through` says how far a stream was pruned. A cut is let
-- in only if a control event names it. In canonical JSON a quotation mark inside a text is escaped, so `"through":7`
-- can only be a key and its value.
CREATE TABLE IF NOT EXISTS cuts (
    stream TEXT NOT NULL,
    through INTEGER NOT NULL CHECK (through > 0),
    link BLOB NOT NULL CHECK (length(link) = 32),
    first_position INTEGER NOT NULL CHECK (first_position > 0),
    last_position INTEGER NOT NULL CHECK (last_position >= first_position),
    count INTEGER NOT NULL CHECK (count > 0),
    org TEXT,
    fact_position INTEGER NOT NULL,
    PRIMARY KEY (stream, through)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS cuts_by_position ON cuts (last_position);

CREATE TRIGGER IF NOT EXISTS cuts_only_grow BEFORE INSERT ON cuts
WHEN NEW.stream >= 'tally.' AND NEW.stream < 'tally/'
    OR EXISTS (
        SELECT 1 FROM cuts
        WHERE stream = NEW.stream AND (through >= NEW.through OR last_position >= NEW.last_position
            OR count >= NEW.count OR first_position <> NEW.first_position OR fact_position >= NEW.fact_position)
    )
BEGIN
    SELECT RAISE(ABORT, 'a cut goes further than the one before it, and control facts are never cut');
END;

CREATE TRIGGER IF NOT EXISTS cuts_are_not_changed BEFORE UPDATE ON cuts
BEGIN
    SELECT RAISE(ABORT, 'cuts are immutable');
END;

CREATE TRIGGER IF NOT EXISTS cuts_are_not_deleted BEFORE DELETE ON cuts
BEGIN
    SELECT RAISE(ABORT, 'cuts are immutable');
END;

-- A cut ends at an event, or its stream begins with it: then the stream has no events yet, and the control fact that
-- names the cut comes with the rest of the transfer. `check_cuts` says whether it came.
CREATE TRIGGER IF NOT EXISTS cuts_are_named_by_facts BEFORE INSERT ON cuts
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
