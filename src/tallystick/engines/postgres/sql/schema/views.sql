-- The epochs of projections, each with its place in the log. `checksum` covers the place, as in `store/row_checks.py`;
-- `row_count` is compared with the rows, so that one that vanished is noticed.

CREATE TABLE tally.views (
    number bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    projection text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    live boolean NOT NULL,
    definition text COLLATE "C" NOT NULL,
    store_id uuid NOT NULL,
    position bigint NOT NULL,
    link_position bigint NOT NULL,
    link bytea NOT NULL,
    drops bigint NOT NULL,
    checksum bytea,
    row_count bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (projection, epoch)
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX views_live ON tally.views (projection) WHERE live;

GRANT SELECT, INSERT, UPDATE, DELETE ON tally.views TO tally_app;
GRANT SELECT ON tally.views TO tally_reader;
