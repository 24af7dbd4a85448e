-- A snapshot is known by the id of its control fact, which says the same of it as this row. An empty `stream` is the
-- whole store. `body` is the state, or for kind `diff` the patch that leads to it.

CREATE TABLE tally.snapshots (
    id uuid PRIMARY KEY,
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    position bigint NOT NULL,
    link bytea NOT NULL,
    reducer text COLLATE "C" NOT NULL,
    reducer_version integer NOT NULL,
    upcasters bytea NOT NULL,
    kind text NOT NULL CHECK (kind IN ('full', 'diff')),
    base uuid CHECK ((base IS NULL) = (kind = 'full')),
    state_hash bytea NOT NULL CHECK (octet_length(state_hash) = 32),
    made bigint NOT NULL,
    org text COLLATE "C",
    body bytea NOT NULL
);

CREATE TRIGGER snapshots_are_named_by_facts BEFORE INSERT ON tally.snapshots
FOR EACH ROW EXECUTE FUNCTION tally.judge_snapshot();

CREATE TRIGGER snapshots_are_not_changed BEFORE UPDATE ON tally.snapshots
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER snapshots_are_not_truncated BEFORE TRUNCATE ON tally.snapshots
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

ALTER TABLE tally.snapshots ENABLE ALWAYS TRIGGER snapshots_are_named_by_facts;
ALTER TABLE tally.snapshots ENABLE ALWAYS TRIGGER snapshots_are_not_changed;
ALTER TABLE tally.snapshots ENABLE ALWAYS TRIGGER snapshots_are_not_truncated;

GRANT SELECT ON tally.snapshots TO tally_app, tally_maintenance, tally_reader;
