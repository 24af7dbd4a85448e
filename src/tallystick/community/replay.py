"""Views: states that depend only on the counted set in its merged order.

A view has four methods, and a Projection with `order = "lamport"` wraps one in a few lines: `reset` is `initial`,
`apply` folds one event, `snapshot_state` and `restore_state` are its rows. Late events roll the views back to a
savepoint, from which they fold again, once per batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tallystick import errors
from tallystick.community import wire_format
from tallystick.community.entry import Key
from tallystick.community.floors import Covered
from tallystick.community.replica import Replica
from tallystick.community.types import KNOWN_TYPES, Event
from tallystick.event import canonical

SAVE_EVERY = 500
SAVEPOINTS_MAX = 12
BYTES_PER_EVENT = 50

_encode = msgspec.json.encode
_unpack = msgspec.json.decode


def pack(states: Mapping[str, dict[str, Any]]) -> dict[str, bytes]:
    """States as canonical JSON bytes, which cannot be changed by accident."""
    return {name: canonical.encode_state(state) for name, state in states.items()}


class MaterialisedView(Protocol):
    """The interface of a view. `apply` receives everything that members write, and ignores what makes no sense."""

    def reset(self) -> None: ...
    def apply(self, event: Event) -> None: ...
    def snapshot_state(self) -> dict[str, Any]: ...
    def restore_state(self, state: dict[str, Any]) -> None:
        """Continue from a state, which the view may keep and change."""


class HasReplica(Protocol):
    """What an engine folds: an event log, or a node without a disk."""

    @property
    def replica(self) -> Replica: ...


class ReplayEngine:
    """Keeps registered views at the end of the counted set."""

    def __init__(self, log: HasReplica) -> None:
        self.log = log
        self.views: dict[str, MaterialisedView] = {}
        self._types: dict[str, frozenset[str]] = {}
        self._base: dict[str, bytes] = {}  # the states from a snapshot, as bytes
        self._applied = 0
        self._save_at = SAVE_EVERY
        self._savepoints: list[tuple[int, dict[str, bytes]]] = []
        log.replica.listeners.append(self._changed)
        log.replica.floor_listeners.append(self._settle)

    def register(self, name: str, view: MaterialisedView, event_types: Iterable[str]) -> None:
        """Add a view and bring it up to date."""
        self.register_all({name: (view, event_types)})

    def register_all(self, views: Mapping[str, tuple[MaterialisedView, Iterable[str]]]) -> None:
        """Add views and bring them up to date in one pass."""
        for name, (view, event_types) in views.items():
            unknown = set(event_types) - KNOWN_TYPES
            if unknown:
                raise errors.InvalidValue(
                    what="event types", value=sorted(unknown)[0], must="in the list of event types"
                )
            self.views[name] = view
            self._types[name] = frozenset(event_types)
        fresh = [name for name in views if name not in self._base]
        if self.log.replica.settled and fresh:
            for name in fresh:
                self._begin(name)
            self._fold_settled(fresh, self.log.replica.settled)
        self.rebuild_all()

    def rebuild(self, view_name: str, from_lamport: int = 0) -> None:
        """Reset one view and replay the events for it, from a lamport on."""
        self._begin(view_name)
        for entry in self.log.replica.counted.entries():
            if entry.lamport >= from_lamport and entry.type in self._types[view_name]:
                self.views[view_name].apply(wire_format.to_wire(entry, self.log.replica.community))

    def rebuild_all(self) -> None:
        """Reset every view and replay everything."""
        self._savepoints.clear()
        self._start()
        self._fold()

    def on_event(self, event: Event) -> None:
        """Bring the views up to date. They receive events in the merged order, whatever order they arrived in."""
        self._fold()

    def states(self) -> dict[str, dict[str, Any]]:
        """The state of every view."""
        return {name: view.snapshot_state() for name, view in sorted(self.views.items())}

    def floor_states(self) -> dict[str, bytes] | None:
        """The packed states of all views at the floor; None if a view does not begin there."""
        return dict(self._base) if self._base and set(self._base) == set(self.views) else None

    def restart(self, states: Mapping[str, bytes], *, floor: bytes = b"") -> None:
        """Continue from the packed states of a snapshot at a floor: what it covers is no longer folded."""
        self._base = dict(states)
        settled = self.log.replica.settled
        reached = [number for number, covered in enumerate(settled) if covered.base.floor == floor]
        later = settled[reached[0] + 1 :] if reached else settled
        if later:
            for name in self.views:
                self._begin(name)
            self._fold_settled(list(self.views), later)
        self.rebuild_all()

    def resume(self, states: Mapping[str, bytes], covered: list[Key]) -> None:
        """Continue from packed states that cover these events if those come first in the order; if not, fold all."""
        keys = self.log.replica.counted.keys
        if keys[: len(covered)] != covered or set(states) != set(self.views):
            self.rebuild_all()
            return
        for name, view in self.views.items():
            view.reset()
            view.restore_state(_unpack(states[name]))
        self._applied = len(covered)
        self._savepoints = [(self._applied, dict(states))]
        self._wait(sum(map(len, states.values())))
        self._fold()

    def states_of(self, covered: Covered) -> dict[str, dict[str, Any]]:
        """The states after what a floor or a snapshot covers. The views themselves do not change."""
        replica = self.log.replica
        now, replica.roster = replica.roster, covered.roster
        try:
            for name in self.views:
                self._begin(name)
            for entry in covered.entries:
                for name, types in self._types.items():
                    if entry.type in types:
                        self.views[name].apply(wire_format.to_wire(entry, replica.community))
            return self.states()
        finally:
            replica.roster = now
            self.rebuild_all()

    def _settle(self, covered: Covered) -> None:
        """Handle a new floor: fold what it covers once, and everything else after it, even older events."""
        for name in self.views:
            self._begin(name)
        self._fold_settled(list(self.views), [covered])
        self.rebuild_all()

    def _fold_settled(self, names: list[str], settled: Sequence[Covered]) -> None:
        """Fold what floors cover into the views, and start from there from now on."""
        for covered in settled:
            for entry in covered.entries:
                for name in names:
                    if entry.type in self._types[name]:
                        self.views[name].apply(wire_format.to_wire(entry, self.log.replica.community))
        self._base |= pack({name: self.views[name].snapshot_state() for name in names})

    def _begin(self, name: str) -> None:
        self.views[name].reset()
        if name in self._base:
            self.views[name].restore_state(_unpack(self._base[name]))

    def _start(self) -> None:
        """Reset every view to where folding starts: the initial state, or the states of a snapshot."""
        self._applied = 0
        for name in self.views:
            self._begin(name)
        self._wait(sum(map(len, self._base.values())))

    def _changed(self, same: int) -> None:
        if same < self._applied:
            self._roll_back(same)
        self._fold()

    def _roll_back(self, same: int) -> None:
        while self._savepoints and self._savepoints[-1][0] > same:
            self._savepoints.pop()
        if not self._savepoints:
            self._start()
            return
        self._applied, states = self._savepoints[-1]
        self._wait(sum(map(len, states.values())))
        for name, view in self.views.items():
            view.reset()
            view.restore_state(_unpack(states[name]))

    def _fold(self) -> None:
        replica = self.log.replica
        wanted: dict[str, list[MaterialisedView]] = {}
        for name, types in self._types.items():
            for type_ in types:
                wanted.setdefault(type_, []).append(self.views[name])
        for entry in replica.counted.entries(self._applied):
            if entry.type in wanted:
                event = wire_format.to_wire(entry, replica.community)
                for view in wanted[entry.type]:
                    view.apply(event)
            self._applied += 1
            if self._applied >= self._save_at:
                self._save()

    def _wait(self, state_bytes: int) -> None:
        """Decide when to save next: a savepoint costs by its state's size, folding again by the number of events."""
        self._save_at = self._applied + max(SAVE_EVERY, self._applied // 4, state_bytes // BYTES_PER_EVENT)

    def _save(self) -> None:
        states = {name: _encode(view.snapshot_state()) for name, view in self.views.items()}
        self._savepoints.append((self._applied, states))
        self._wait(sum(map(len, states.values())))
        if len(self._savepoints) > SAVEPOINTS_MAX:
            del self._savepoints[1::2]
