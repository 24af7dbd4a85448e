-- The steps that were taken: the last one is the format.

CREATE TABLE tally.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

GRANT SELECT ON tally.migrations TO tally_app, tally_maintenance, tally_reader;
