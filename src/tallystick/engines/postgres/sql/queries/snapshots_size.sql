SELECT coalesce(sum(octet_length(body)), 0)::bigint FROM tally.snapshots
