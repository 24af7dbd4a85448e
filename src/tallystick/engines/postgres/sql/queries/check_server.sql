SELECT current_setting('server_encoding'), current_setting('synchronous_commit'), current_setting('fsync'),
    (SELECT seqcache FROM pg_sequence WHERE seqrelid = to_regclass('tally.positions')), pg_is_in_recovery(),
    EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = to_regclass('tally.events'))
