SELECT position, uuid_send(id), type, org, coalesce(tags, '{}') FROM tally.pruned WHERE position > %s ORDER BY position
LIMIT %s
