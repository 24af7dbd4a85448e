"""Which nodes must be executed again: those that a change affects directly, and everything that depends on them.

A pure function: graph and changes in, nodes and reasons out. The runner executes exactly these again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tallystick.runs.workflow import Graph


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since nodes finished."""

    artifacts: frozenset[str] = frozenset()  # their content changed: their readers are stale
    missing: frozenset[str] = frozenset()  # their file is missing: their writer is stale
    forced: frozenset[str] = frozenset()  # nodes that the user wants to repeat
    code: frozenset[str] = frozenset()  # nodes whose code changed, and was not accepted as the same


def stale(graph: Graph, changes: Changes, *, finished: Iterable[str]) -> dict[str, str]:
    """The finished nodes that are stale, in the graph's order, each with the reason."""
    reasons: dict[str, str] = {}
    for artifact in sorted(changes.artifacts):
        for node in graph.readers.get(artifact, ()):
            reasons.setdefault(node, f"artifact {artifact} changed")
    for artifact in sorted(changes.missing):
        if artifact in graph.maker:
            reasons.setdefault(graph.maker[artifact], f"artifact {artifact} is gone")
    for node in sorted(changes.forced):
        reasons.setdefault(node, "forced")
    for node in sorted(changes.code):
        reasons.setdefault(node, "its code changed")
    done = set(finished)
    found = {}
    for node in graph.downstream(reasons):
        if node not in reasons:
            first = min((other for other in graph.waits[node] if other in reasons), key=graph.rank.__getitem__)
            reasons[node] = f"node {first} is stale"
        if node in done:
            found[node] = reasons[node]
    return found
