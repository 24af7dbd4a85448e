-- Commands that took effect. The key only rises: rows never move from page to page, so a forgotten response leaves no
-- copy.
CREATE TABLE IF NOT EXISTS commands (
    number INTEGER PRIMARY KEY,
    org TEXT NOT NULL,
    actor TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    key TEXT NOT NULL,
    request_hash BLOB NOT NULL,
    recorded INTEGER NOT NULL,
    response BLOB NOT NULL,
    UNIQUE (org, actor, endpoint, key)
) STRICT;

CREATE INDEX IF NOT EXISTS commands_by_time ON commands (recorded);

CREATE TRIGGER IF NOT EXISTS commands_are_not_replaced BEFORE INSERT ON commands
WHEN EXISTS (
        SELECT 1 FROM commands
        WHERE org = NEW.org AND actor = NEW.actor AND endpoint = NEW.endpoint AND key = NEW.key
    )
    OR EXISTS (SELECT 1 FROM commands WHERE number = NEW.number)
BEGIN
    SELECT RAISE(ABORT, 'a command took effect once');
END;

CREATE TRIGGER IF NOT EXISTS commands_are_not_changed BEFORE UPDATE ON commands
BEGIN
    SELECT RAISE(ABORT, 'a command took effect once');
END;

CREATE TRIGGER IF NOT EXISTS forgotten_commands_take_their_ranges AFTER DELETE ON commands
BEGIN
    DELETE FROM command_ranges WHERE command = OLD.number;
END;
