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

-- Rows belong to the service, whatever org it acts for: an erasure has to reach all of them. Nobody knows which org a
-- row belongs to, so the reader's role sees them only while its session names no org.
ALTER TABLE tally.views ENABLE ROW LEVEL SECURITY;
CREATE POLICY service_keeps_all ON tally.views TO tally_app USING (true) WITH CHECK (true);
CREATE POLICY reader_is_no_tenant ON tally.views FOR SELECT TO tally_reader
USING ((SELECT nullif(current_setting('tally.org', true), '')) IS NULL);

GRANT SELECT, INSERT, UPDATE, DELETE ON tally.views TO tally_app;
GRANT SELECT ON tally.views TO tally_reader;
