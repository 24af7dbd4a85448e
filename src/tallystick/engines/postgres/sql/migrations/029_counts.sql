-- How many rows an epoch of a projection has, and how many dead letters there are: one that vanished is missed.

ALTER TABLE tally.views ADD COLUMN row_count bigint NOT NULL DEFAULT 0;

UPDATE tally.views AS view SET row_count = (SELECT count(*) FROM tally.view_rows WHERE view_rows.view = view.number);

CREATE TABLE tally.kept_counts (
    what text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO tally.kept_counts (what, number) SELECT 'dead_letters', count(*) FROM tally.dead_letters;

ALTER TABLE tally.kept_counts ENABLE ROW LEVEL SECURITY;
CREATE POLICY service_keeps_all ON tally.kept_counts TO tally_app USING (true) WITH CHECK (true);
CREATE POLICY reader_is_no_tenant ON tally.kept_counts FOR SELECT TO tally_reader
USING ((SELECT nullif(current_setting('tally.org', true), '')) IS NULL);

GRANT SELECT, INSERT, UPDATE ON tally.kept_counts TO tally_app;
GRANT SELECT ON tally.kept_counts TO tally_reader;
