-- In one order, so that nobody who does the same waits for the other.
SELECT projection, epoch, live, convert_to(definition, 'UTF8'), uuid_send(store_id), position, link_position, link, drops,
    checksum
FROM tally.views
WHERE projection = %s
ORDER BY epoch
FOR UPDATE
