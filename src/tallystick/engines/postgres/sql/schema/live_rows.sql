-- The rows of live epochs, for anyone who looks with SQL.

CREATE VIEW tally.live_rows WITH (security_invoker = true) AS
SELECT view.projection, row.key, row.state::jsonb AS state
FROM tally.views AS view JOIN tally.view_rows AS row ON row.view = view.number
WHERE view.live AND NOT row.dropped;

GRANT SELECT ON tally.live_rows TO tally_app, tally_reader;
