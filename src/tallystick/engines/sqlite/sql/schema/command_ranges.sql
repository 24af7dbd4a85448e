-- What each command appended: per stream the seqs from `first` to `last`, their positions and the last link. A row
-- stays when the events are pruned.
CREATE TABLE IF NOT EXISTS command_ranges (
    command INTEGER NOT NULL,
    part INTEGER NOT NULL,
    stream TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL CHECK (last >= first),
    first_position INTEGER,
    last_position INTEGER,
    link BLOB,
    PRIMARY KEY (command, part)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS command_ranges_by_stream ON command_ranges (stream, last);
