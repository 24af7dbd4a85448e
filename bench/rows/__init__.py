"""The rows, in the order of the table. A new theme is a file here and a name in the list."""

from __future__ import annotations

from bench.rows import batches, concurrent, disk, large, lookup, projections, replay, singles, sqlite, state

CASES = (
    batches.batches,
    singles.singles,
    concurrent.concurrent,
    replay.replay,
    sqlite.sqlite,
    projections.projections,
    lookup.lookup,
    disk.disk,
    large.large,
    state.folding,
)
