SELECT body FROM tally.snapshots WHERE id = %s::uuid
