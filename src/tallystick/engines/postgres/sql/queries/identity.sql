SELECT uuid_send(store_id), profile FROM tally.store
