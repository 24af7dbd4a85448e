-- How many rows `dead_letters` has, so that a row that vanished is noticed.
CREATE TABLE IF NOT EXISTS kept_counts (
    what TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT OR IGNORE INTO kept_counts (what, number) SELECT 'dead_letters', count(*) FROM dead_letters;
