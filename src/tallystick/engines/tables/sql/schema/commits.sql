-- One row: how many writes the database took. The file `<database>.mark` has the same number.
CREATE TABLE IF NOT EXISTS commits (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL
) STRICT;

INSERT OR IGNORE INTO commits (id, number) VALUES (1, 0);
