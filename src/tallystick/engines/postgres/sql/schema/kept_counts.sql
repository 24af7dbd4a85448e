-- How many rows a table has, so that one that vanished is noticed. Only dead letters are counted here.

CREATE TABLE tally.kept_counts (
    what text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO tally.kept_counts (what, number) VALUES ('dead_letters', 0);

GRANT SELECT, INSERT, UPDATE ON tally.kept_counts TO tally_app;
GRANT SELECT ON tally.kept_counts TO tally_reader;
