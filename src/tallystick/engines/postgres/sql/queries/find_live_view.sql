SELECT projection, epoch, live, convert_to(definition, 'UTF8'), uuid_send(store_id), position, link_position, link,
    drops, checksum
FROM tally.views
WHERE projection = %s AND live
