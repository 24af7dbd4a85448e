-- Commands that took effect: recorded with their events, so that each runs once.

CREATE TABLE tally.commands (
    org text COLLATE "C",
    actor text COLLATE "C",
    endpoint text COLLATE "C",
    key text COLLATE "C",
    number bigint GENERATED ALWAYS AS IDENTITY,
    request_hash bytea NOT NULL,
    recorded bigint NOT NULL,
    response bytea NOT NULL,
    PRIMARY KEY (org, actor, endpoint, key)
);

CREATE UNIQUE INDEX commands_by_number ON tally.commands (number);
CREATE INDEX commands_by_time ON tally.commands (recorded);

-- A response may be emptied, because it may repeat a payload that was erased. It stays known that the command took
-- effect.
CREATE TRIGGER commands_are_not_changed BEFORE UPDATE ON tally.commands
FOR EACH ROW WHEN (
    NEW.response <> ''::bytea
    OR (NEW.number, NEW.org, NEW.actor, NEW.endpoint, NEW.key, NEW.request_hash, NEW.recorded)
        IS DISTINCT FROM (OLD.number, OLD.org, OLD.actor, OLD.endpoint, OLD.key, OLD.request_hash, OLD.recorded)
) EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER commands_are_not_truncated BEFORE TRUNCATE ON tally.commands
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

ALTER TABLE tally.commands ENABLE ALWAYS TRIGGER commands_are_not_changed;
ALTER TABLE tally.commands ENABLE ALWAYS TRIGGER commands_are_not_truncated;

GRANT SELECT ON tally.commands TO tally_app, tally_maintenance, tally_reader;
