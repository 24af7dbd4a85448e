UPDATE checkpoints SET checksum = row_check(lower(hex(store_id)), position, link_position, lower(hex(link)), name)
