UPDATE views SET checksum = row_check(
    projection, epoch, definition, lower(hex(store_id)), position, link_position, lower(hex(link))
)
