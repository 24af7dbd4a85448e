-- Where the events of a command are: positions and last link. They stay when the events are pruned.

ALTER TABLE command_ranges ADD COLUMN first_position INTEGER;
ALTER TABLE command_ranges ADD COLUMN last_position INTEGER;
ALTER TABLE command_ranges ADD COLUMN link BLOB;

UPDATE command_ranges SET
    first_position = (
        SELECT position FROM events WHERE events.stream = command_ranges.stream AND events.seq = command_ranges.first
    ),
    last_position = (
        SELECT position FROM events WHERE events.stream = command_ranges.stream AND events.seq = command_ranges.last
    ),
    link = (SELECT link FROM events WHERE events.stream = command_ranges.stream AND events.seq = command_ranges.last);
