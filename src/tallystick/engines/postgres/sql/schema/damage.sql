-- Damage that was found and is not settled. While it has a row that is not being settled, nothing is appended.

CREATE TABLE tally.damage (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    what text NOT NULL,
    reason text NOT NULL,
    position bigint NOT NULL,
    stream text NOT NULL,
    seq bigint NOT NULL,
    found timestamptz NOT NULL DEFAULT now(),
    settling boolean NOT NULL DEFAULT false
);
