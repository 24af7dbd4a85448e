-- In one order, so that two sessions that do this do not wait for each other.
SELECT projection, epoch, live, convert_to(definition, 'UTF8'), uuid_send(store_id), position, link_position, link,
    drops, checksum
FROM tally.views
WHERE projection = %s
ORDER BY epoch
FOR UPDATE
