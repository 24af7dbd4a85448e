-- How far each consumer has come. `checksum` covers the row, as in `store/row_checks.py`.

CREATE TABLE tally.checkpoints (
    name text COLLATE "C" PRIMARY KEY,
    store_id uuid NOT NULL,
    position bigint NOT NULL,
    link_position bigint NOT NULL,
    link bytea NOT NULL,
    checksum bytea
);

GRANT SELECT, INSERT, UPDATE, DELETE ON tally.checkpoints TO tally_app;
GRANT SELECT ON tally.checkpoints TO tally_maintenance;
