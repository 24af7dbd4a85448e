-- Events that a consumer gave up on.

CREATE TABLE tally.dead_letters (
    consumer text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    attempts integer NOT NULL,
    parked bigint NOT NULL,
    reason text COLLATE "C" NOT NULL,
    PRIMARY KEY (position, consumer)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON tally.dead_letters TO tally_app;
GRANT SELECT ON tally.dead_letters TO tally_reader;
