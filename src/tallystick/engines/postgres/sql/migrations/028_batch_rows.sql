-- Rows of a batch that tasks fill together. They are copied to `view_rows` in one transaction, and until then nobody reads
-- them. Lost in a crash of the server, they are missed by their number, and the batch is filled again.

CREATE UNLOGGED TABLE tally.batch_rows (
    view bigint NOT NULL,
    batch bytea NOT NULL,
    key text COLLATE "C" NOT NULL,
    state text COLLATE "C",
    mark bytea NOT NULL,
    checksum bytea,
    PRIMARY KEY (view, batch, key)
);

ALTER TABLE tally.batch_rows ENABLE ROW LEVEL SECURITY;
CREATE POLICY service_keeps_all ON tally.batch_rows TO tally_app USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON tally.batch_rows TO tally_app;
