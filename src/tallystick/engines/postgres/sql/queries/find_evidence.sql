SELECT uuid_send(store.store_id), pg_postmaster_start_time(),
    (SELECT link FROM tally.events WHERE position = %s), (SELECT coalesce(max(last_position), 0) FROM tally.cuts)
FROM tally.store AS store
