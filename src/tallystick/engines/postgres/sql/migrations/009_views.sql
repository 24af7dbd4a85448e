-- The rows of projections, what consumers could not handle, and a schema for the tables that projections own.
-- `state` is canonical JSON as the text it is; a row that is `dropped` has none, and is to be folded again. No index
-- looks at `state`, so a new one needs no new index entry (HOT).

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
    PRIMARY KEY (projection, epoch)
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX views_live ON tally.views (projection) WHERE live;

CREATE TABLE tally.view_rows (
    view bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    dropped boolean NOT NULL,
    state text COLLATE "C",
    mark bytea NOT NULL,
    PRIMARY KEY (view, key),
    CHECK (dropped = (state IS NULL))
) WITH (fillfactor = 70);

CREATE INDEX view_rows_dropped ON tally.view_rows (view, key) WHERE dropped;

CREATE TABLE tally.dead_letters (
    consumer text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    attempts integer NOT NULL,
    parked bigint NOT NULL,
    reason text COLLATE "C" NOT NULL,
    PRIMARY KEY (position, consumer)
);

-- The live rows, for whoever looks with SQL.
CREATE VIEW tally.live_rows WITH (security_invoker = true) AS
SELECT view.projection, row.key, row.state::jsonb AS state
FROM tally.views AS view JOIN tally.view_rows AS row ON row.view = view.number
WHERE view.live AND NOT row.dropped;

-- Rows are the service's, whatever org it acts for: an erasure has to reach all of them. Nobody knows of which org a
-- row is, so the reader's role sees them only while its session is no tenant's.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['views', 'view_rows', 'dead_letters'] LOOP
        EXECUTE format('ALTER TABLE tally.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY service_keeps_all ON tally.%I TO tally_app USING (true) WITH CHECK (true)', name);
        EXECUTE format(
            'CREATE POLICY reader_is_no_tenant ON tally.%I FOR SELECT TO tally_reader
            USING ((SELECT nullif(current_setting(''tally.org'', true), '''')) IS NULL)', name
        );
    END LOOP;
END
$$;

GRANT SELECT, INSERT, UPDATE, DELETE ON tally.views, tally.view_rows, tally.dead_letters TO tally_app;
GRANT SELECT ON tally.views, tally.view_rows, tally.dead_letters, tally.live_rows TO tally_reader;
GRANT SELECT ON tally.live_rows TO tally_app;
-- So that a commit which holds the log alone can tell where its events will stand.
GRANT SELECT ON SEQUENCE tally.positions TO tally_app;

-- Tables that projections own. Those who make them own them, and say who else may read them. A schema is made by the
-- role that logs in, as the first one was: the owner has no right to.
RESET ROLE;
CREATE SCHEMA tally_views AUTHORIZATION tally_owner;
SET LOCAL ROLE tally_owner;

GRANT USAGE, CREATE ON SCHEMA tally_views TO tally_app;
GRANT USAGE ON SCHEMA tally_views TO tally_reader;
