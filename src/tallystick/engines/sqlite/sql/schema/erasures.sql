-- One row per erased payload. An erasure is let in only if a control event names it.
CREATE TABLE IF NOT EXISTS erasures (
    position INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    checksum BLOB NOT NULL CHECK (length(checksum) = 32),
    fact_position INTEGER NOT NULL
) STRICT;

CREATE TRIGGER IF NOT EXISTS erasures_happen_once BEFORE INSERT ON erasures
WHEN NEW.stream >= 'tally.' AND NEW.stream < 'tally/'
    OR EXISTS (SELECT 1 FROM erasures WHERE position = NEW.position)
BEGIN
    SELECT RAISE(ABORT, 'an event is erased once, and control facts are never erased');
END;

CREATE TRIGGER IF NOT EXISTS erasures_are_not_changed BEFORE UPDATE ON erasures
BEGIN
    SELECT RAISE(ABORT, 'erasures are immutable');
END;

CREATE TRIGGER IF NOT EXISTS erasures_are_not_deleted BEFORE DELETE ON erasures
BEGIN
    SELECT RAISE(ABORT, 'erasures are immutable');
END;

-- An erasure has its fact and its event. Or its event was received without a payload; then the fact comes with the rest
-- of the transfer, after the end of the log. `check_erasures` says whether it came.
CREATE TRIGGER IF NOT EXISTS erasures_are_named_by_facts BEFORE INSERT ON erasures
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
