-- What a command appended: the seqs from `first_seq` to `last_seq` of each stream, with the positions and the last
-- link, which stay when the events are pruned. A trigger fills in the latter.

CREATE TABLE tally.command_ranges (
    command bigint NOT NULL,
    part integer NOT NULL,
    stream text COLLATE "C" NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL CHECK (last_seq >= first_seq),
    org text COLLATE "C" NOT NULL,
    first_position bigint,
    last_position bigint,
    link bytea,
    PRIMARY KEY (command, part)
);

CREATE INDEX command_ranges_by_stream ON tally.command_ranges (stream, last_seq);

CREATE TRIGGER command_ranges_are_placed BEFORE INSERT ON tally.command_ranges
FOR EACH ROW EXECUTE FUNCTION tally.place_range();

GRANT SELECT ON tally.command_ranges TO tally_app, tally_maintenance, tally_reader;
