-- How far the log is proven to be final, and the proof in progress: once none of `holders` runs any more, everything up
-- to `pending` is final. A standby, or a reader that has just started, begins here.

CREATE TABLE tally.proven (
    one integer PRIMARY KEY CHECK (one = 1),
    position bigint NOT NULL,
    pending bigint,
    holders text[]
) WITH (fillfactor = 10);

INSERT INTO tally.proven (one, position) VALUES (1, 0);

GRANT SELECT ON tally.proven TO tally_app, tally_maintenance, tally_reader;
