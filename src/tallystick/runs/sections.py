"""The state of a section, from the states of its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tallystick.runs.facts import NodeStatus, SectionStateChanged
from tallystick.runs.state import WorkItem


def combined(states: Counter[NodeStatus]) -> NodeStatus:
    """The combined state of nodes in these states."""
    if states["failed"]:
        return "failed"
    if states["running"] or (states["finished"] and states["pending"]):
        return "running"
    if states["stale"]:
        return "stale"
    return "finished" if states["finished"] else "pending"


class Sections:
    """Counts the states of nodes by section, and reports changes of a section's state."""

    def __init__(self, items: Iterable[WorkItem], known: dict[str, NodeStatus]) -> None:
        self._of = {item.node: item.section for item in items}
        self._state = {item.node: item.state for item in items}
        self._known = dict(known)
        self._counts: dict[str, Counter[NodeStatus]] = {}
        for node, section in self._of.items():
            if section is not None:
                self._counts.setdefault(section, Counter())[self._state[node]] += 1
        self._moved = set(self._counts)

    def move(self, node: str, state: NodeStatus) -> None:
        """Record that the state of a node changed."""
        section = self._of.get(node)
        if section is not None:
            counts = self._counts[section]
            counts[self._state[node]] -= 1
            counts[state] += 1
            self._moved.add(section)
        self._state[node] = state

    def changes(self) -> list[SectionStateChanged]:
        """The sections whose state changed since the last report."""
        found = []
        for section in sorted(self._moved):
            state = combined(self._counts[section])
            if self._known.get(section) != state:
                self._known[section] = state
                found.append(SectionStateChanged(section=section, state=state))
        self._moved.clear()
        return found
