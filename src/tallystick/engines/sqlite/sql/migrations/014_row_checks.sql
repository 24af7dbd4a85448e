-- A check over each row that is beside the log. row_check() is `store/row_checks.py`.

ALTER TABLE views ADD COLUMN checksum BLOB;
ALTER TABLE view_rows ADD COLUMN checksum BLOB;
ALTER TABLE checkpoints ADD COLUMN checksum BLOB;

UPDATE views SET checksum = row_check(
    projection, epoch, definition, lower(hex(store_id)), position, link_position, lower(hex(link))
);
UPDATE view_rows SET checksum = row_check(projection, epoch, lower(hex(mark)), state, key) WHERE state IS NOT NULL;
UPDATE checkpoints SET checksum = row_check(lower(hex(store_id)), position, link_position, lower(hex(link)), name);
