UPDATE view_rows SET checksum = row_check(projection, epoch, lower(hex(mark)), state, key) WHERE state IS NOT NULL
