-- The latest lease of a run. A released one has no host; its number stays, so that the next one fences it off.

CREATE TABLE tally.leases (
    stream text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL CHECK (number > 0),
    host text,
    pid bigint,
    started bigint,
    handle text
);
