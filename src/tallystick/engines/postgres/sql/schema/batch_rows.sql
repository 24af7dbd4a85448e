-- Rows of a batch that several tasks fill. One transaction copies them to `view_rows`; until then nobody reads them.
-- If a crash of the server loses some, their number is wrong, and the batch is filled again.

CREATE UNLOGGED TABLE tally.batch_rows (
    view bigint NOT NULL,
    batch bytea NOT NULL,
    key text COLLATE "C" NOT NULL,
    state text COLLATE "C",
    mark bytea NOT NULL,
    checksum bytea,
    PRIMARY KEY (view, batch, key)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON tally.batch_rows TO tally_app;
