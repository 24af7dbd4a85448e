-- Kinds of streams that no tenant sees, whatever org their events name.

CREATE TABLE tally.infrastructure (
    kind text COLLATE "C" PRIMARY KEY
);

GRANT SELECT ON tally.infrastructure TO tally_app, tally_maintenance, tally_reader;
