"""The rows, in the order of the table. A new theme is a file here and a name in the list."""

from __future__ import annotations

from bench.rows import (
    batches,
    community,
    concurrent,
    disk,
    large,
    listing,
    lookup,
    postgres,
    projections,
    replay,
    runs,
    singles,
    sqlite,
    state,
)

CASES = (
    batches.batches,
    singles.singles,
    concurrent.concurrent,
    replay.replay,
    sqlite.sqlite,
    projections.projections,
    postgres.batches,
    postgres.singles,
    postgres.many,
    projections.on_a_server,
    lookup.lookup,
    disk.disk,
    large.large,
    listing.listing,
    state.folding,
    runs.overhead,
    runs.resume,
    community.receive,
    community.reconcile,
    community.join,
)
