-- A check over each row that is beside the log, as `store/row_checks.py` makes it.

ALTER TABLE tally.views ADD COLUMN checksum bytea;
ALTER TABLE tally.view_rows ADD COLUMN checksum bytea;
ALTER TABLE tally.checkpoints ADD COLUMN checksum bytea;

UPDATE tally.views SET checksum = substring(sha256(convert_to(concat_ws(E'\n',
    projection, epoch, definition, replace(store_id::text, '-', ''), position, link_position, encode(link, 'hex')
), 'UTF8')) FOR 16);

UPDATE tally.view_rows AS row SET checksum = substring(sha256(convert_to(concat_ws(E'\n',
    view.projection, view.epoch, encode(row.mark, 'hex'), row.state, row.key
), 'UTF8')) FOR 16)
FROM tally.views AS view
WHERE view.number = row.view AND NOT row.dropped;

UPDATE tally.checkpoints SET checksum = substring(sha256(convert_to(concat_ws(E'\n',
    replace(store_id::text, '-', ''), position, link_position, encode(link, 'hex'), name
), 'UTF8')) FOR 16);
