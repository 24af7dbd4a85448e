-- How many rows an epoch of a projection has, and how many dead letters there are: one that vanished is missed.

ALTER TABLE views ADD COLUMN row_count INTEGER NOT NULL DEFAULT 0;

UPDATE views SET row_count = (
    SELECT count(*) FROM view_rows AS kept WHERE kept.projection = views.projection AND kept.epoch = views.epoch
);

CREATE TABLE kept_counts (
    what TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO kept_counts (what, number) SELECT 'dead_letters', count(*) FROM dead_letters;
