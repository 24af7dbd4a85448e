-- The rows of projections. `state` is canonical JSON as the text it is; a row that is `dropped` has none, and will be
-- folded again. No index looks at `state`, so a new one needs no new index entry (HOT).

CREATE TABLE tally.view_rows (
    view bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    dropped boolean NOT NULL,
    state text COLLATE "C",
    mark bytea NOT NULL,
    checksum bytea,
    PRIMARY KEY (view, key),
    CHECK (dropped = (state IS NULL))
) WITH (fillfactor = 70);

CREATE INDEX view_rows_dropped ON tally.view_rows (view, key) WHERE dropped;

GRANT SELECT, INSERT, UPDATE, DELETE ON tally.view_rows TO tally_app;
GRANT SELECT ON tally.view_rows TO tally_reader;
