"""Which nodes must be done again, by definition: the roots of a change, and everything that follows from them.

Pure: a graph and what changed in, nodes and reasons out. The runner re-runs exactly these and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tallystick.runs.workflow import Graph


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What is not as it was when nodes finished."""

    artifacts: frozenset[str] = frozenset()  # whose content is another: their readers are stale
    missing: frozenset[str] = frozenset()  # whose file is gone: their maker is stale
    forced: frozenset[str] = frozenset()  # nodes that the user wants done again
    code: frozenset[str] = frozenset()  # nodes whose code is another, and is not accepted as the same


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
