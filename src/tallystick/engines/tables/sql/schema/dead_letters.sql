-- Events that consumers could not handle.
CREATE TABLE IF NOT EXISTS dead_letters (
    consumer TEXT NOT NULL,
    position INTEGER NOT NULL,
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    parked INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (position, consumer)
) STRICT, WITHOUT ROWID;
