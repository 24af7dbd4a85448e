UPDATE dead_letters SET reason = :reason WHERE position = :position
