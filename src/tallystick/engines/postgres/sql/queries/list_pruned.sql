SELECT position, uuid_send(id) FROM tally.pruned WHERE position > %s ORDER BY position LIMIT %s
