SELECT uuid_send(id) FROM tally.snapshots ORDER BY id
