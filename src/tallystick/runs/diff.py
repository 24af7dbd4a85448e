"""The differences between two runs: nodes, their code and parameters, and the artifacts that they made."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick.event import canonical
from tallystick.runs.state import RunState, WorkItem


class RunDifference(msgspec.Struct, frozen=True):
    """One difference: the kind of thing, its name, the property, and the value on each side."""

    what: str
    name: str
    property: str
    a: str | None
    b: str | None


def diff(a: RunState, b: RunState) -> list[RunDifference]:
    """All differences that can change a result. Times and sessions cannot."""
    found = list(_values("run", "", {"workflow": (a.workflow, b.workflow), "state": (a.run_state, b.run_state)}))
    mine, theirs = ({item.node: item for item in state.work_items} for state in (a, b))
    for node in [*mine, *(name for name in theirs if name not in mine)]:
        found += _nodes(node, mine.get(node), theirs.get(node))
    names = sorted(a.artifacts_index.keys() | b.artifacts_index.keys())
    for name in names:
        one, other = a.artifacts_index.get(name), b.artifacts_index.get(name)
        if one is None or other is None:
            hashes = [item.sha256 if item is not None else None for item in (one, other)]
            found.append(RunDifference("artifact", name, "sha256", *hashes))
            continue
        pairs = {key: (getattr(one, key), getattr(other, key)) for key in ("sha256", "path", "schema_id", "stale")}
        found += _values("artifact", name, pairs)
    return found


def _nodes(node: str, one: WorkItem | None, other: WorkItem | None) -> Iterator[RunDifference]:
    if one is None or other is None:
        states = [item.state if item is not None else None for item in (one, other)]
        yield RunDifference("node", node, "state", *states)
        return
    pairs: dict[str, tuple[object, object]] = {"state": (one.state, other.state), "code": (one.code, other.code)}
    for key in ("inputs", "outputs", "after", "params"):
        pairs[key] = (_text(one, key), _text(other, key))
    yield from _values("node", node, pairs)


def _text(item: WorkItem, key: str) -> str:
    return canonical.encode_state(msgspec.to_builtins(getattr(item, key))).decode()


def _values(what: str, name: str, pairs: dict[str, tuple[object, object]]) -> Iterator[RunDifference]:
    for key, (one, other) in pairs.items():
        if one != other:
            yield RunDifference(what, name, key, _shown(one), _shown(other))


def _shown(value: object) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
