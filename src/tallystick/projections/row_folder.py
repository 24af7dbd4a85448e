"""Folding events onto rows. Every runner folds here, so all runners get the same rows.

Each key gets its own events in order. Keys are independent, so a batch is folded key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tallystick import errors
from tallystick.event import canonical
from tallystick.event.model import Event
from tallystick.projections import merged_order, model
from tallystick.projections.summary.compiled import Accounts
from tallystick.projections.summary.model import Summary
from tallystick.store.selection import Selection
from tallystick.store.store import Store
from tallystick.store.views import BY_KIND, BY_STREAM, ViewRow

Load = Callable[[Sequence[str]], Iterable[ViewRow]]


class FoldResult(NamedTuple):
    """The rows that events change, and the keys among them that were folded again from the first event."""

    rows: list[ViewRow]
    refolded: frozenset[str]


class RowFolder:
    """Folds events of one store with one projection."""

    def __init__(self, store: Store, projection: model.Projection) -> None:
        self.projection = projection
        self._store = store
        self._by_position = projection.order == model.BY_POSITION

    def rows(self, events: Iterable[Event], *, load: Load, until: int) -> list[ViewRow]:
        """The rows that these events change. `until` is the position up to which the log was read for them."""
        return self.fold(events, load=load, until=until).rows

    def fold(self, events: Iterable[Event], *, load: Load, until: int) -> FoldResult:
        """The rows that these events change, and which keys were folded again: the caller may skip their other events.

        A key is folded again from its first event if its state was dropped, or if a late event sorts before the last
        applied one: once per batch, for any number of such events.
        """
        self.projection.prepare(self._store, until=until)
        if isinstance(self.projection, Summary):
            return self._add_accounts(self.projection, self.projection.accounts_from(events), load=load, until=until)
        grouped = self._grouped(events)
        before = {row.key: row for row in load(list(grouped))} if grouped else {}
        refolded = [key for key, its in grouped.items() if key in before and self._must_refold(before[key], its)]
        rows = self.refold(refolded, until=until) if refolded else []
        fresh = {key: its for key, its in grouped.items() if key not in set(refolded)}
        rows += self._encoded({key: self._state(before.get(key), its) for key, its in fresh.items()}, fresh)
        return FoldResult(rows, frozenset(refolded))

    def _add_accounts(self, summary: Summary, accounts: Accounts, *, load: Load, until: int) -> FoldResult:
        """The rows after the accounts of these events are added."""
        before = {row.key: row.state for row in load(list(accounts))} if accounts else {}
        dropped = [key for key, state in before.items() if state is None]
        for key, state in before.items():
            if state is not None:
                accounts[key] = summary.merge(summary.accounts(canonical.decode(state)), accounts[key])
        states = {key: summary.to_state(its) for key, its in accounts.items() if before.get(key, b"") is not None}
        rows = self.refold(dropped, until=until) if dropped else []
        return FoldResult(rows + self._encoded(states, {}), frozenset(dropped))

    def refold(self, keys: Sequence[str], *, until: int) -> list[ViewRow]:
        """The rows of these keys, folded from their first event; without a state if a key has no events.

        A pruned history is refused: rows are never folded from what is left of it.
        """
        self.projection.prepare(self._store, until=until)
        wanted = set(keys)
        streams = frozenset(wanted if self.projection.key == BY_STREAM else ())
        kinds = frozenset(wanted if self.projection.key == BY_KIND else ())
        selection = Selection(types=frozenset(self.projection.types), streams=streams, kinds=kinds)
        chosen = self._store.events(until=until, selection=selection)
        states, last = self._refold_events(chosen, wanted)
        gone = [ViewRow(key, None) for key in sorted(wanted - states.keys())]
        return gone + self._encoded(states, last)

    def _refold_events(
        self, events: Iterable[Event], wanted: set[str]
    ) -> tuple[dict[str, Any], dict[str, list[Event]]]:
        """The state of each key, and its last event. In order of position no other events are kept in memory."""
        if not self._by_position:
            grouped = self._grouped(events, wanted)
            return {key: self._state(None, its) for key, its in grouped.items()}, grouped
        states: dict[str, Any] = {}
        last: dict[str, list[Event]] = {}
        for event in events:
            key = model.key_of(self.projection, event)
            if key in wanted:
                last[key] = [event]
                states[key] = self._applied(states[key], [event]) if key in states else self._state(None, [event])
        return states, last

    def _grouped(self, events: Iterable[Event], wanted: set[str] | None = None) -> dict[str, list[Event]]:
        """The events of each key, in order."""
        grouped: dict[str, list[Event]] = {}
        for event in events:
            key = model.key_of(self.projection, event)
            if key is not None and (wanted is None or key in wanted):
                grouped.setdefault(key, []).append(event)
        if not self._by_position:
            for its in grouped.values():
                its.sort(key=self._mark)
        return grouped

    def _must_refold(self, row: ViewRow, its: list[Event]) -> bool:
        if row.state is None or self._by_position:
            return row.state is None
        mark, end = self._mark(its[0]), merged_order.MARK_BYTES
        return mark[:end] < row.mark[:end] or mark[end:] != row.mark[end:]

    def _state(self, row: ViewRow | None, its: list[Event]) -> Any:
        try:
            state = self.projection.initial() if row is None or row.state is None else canonical.decode(row.state)
        except errors.TallyError:
            raise
        except Exception as problem:
            raise self._failed(None, errors.reason_of(problem)) from problem
        return self._applied(state, its)

    def _applied(self, state: Any, its: list[Event]) -> Any:
        apply, event = self.projection.apply, None
        try:
            for event in its:
                state = apply(state, event)
                if state is None:
                    raise self._failed(event, model.NO_STATE)
        except errors.TallyError:
            raise
        except Exception as problem:
            raise self._failed(event, errors.reason_of(problem)) from problem
        return state

    def _encoded(self, states: dict[str, Any], grouped: dict[str, list[Event]]) -> list[ViewRow]:
        marks = {} if self._by_position else {key: self._mark(its[-1]) for key, its in grouped.items() if its}
        texts = self._texts(states, grouped)
        return [ViewRow(key, text, marks.get(key, b"")) for key, text in zip(states, texts, strict=True)]

    def _texts(self, states: dict[str, Any], grouped: dict[str, list[Event]]) -> list[bytes]:
        """The canonical bytes of the states: all at once if they are small objects, otherwise one by one."""
        if states and set(map(type, states.values())) == {dict}:
            try:
                return canonical.encode_many(list(states.values()), what="state")
            except errors.InvalidInput:  # a state may be larger than an event, or is invalid: then name it
                pass
        return [self._text(state, grouped.get(key)) for key, state in states.items()]

    def _text(self, state: Any, its: list[Event] | None) -> bytes:
        try:
            return canonical.encode_state(state)
        except errors.InvalidInput as problem:
            raise self._failed(its[-1] if its else None, problem.message) from problem

    def _mark(self, event: Event) -> bytes:
        mark = self.projection.mark(event)
        if mark is None:
            raise self._failed(event, "it has no lamport in its meta")
        return mark

    def _failed(self, event: Event | None, reason: str) -> errors.ProjectionFailed:
        stream, seq, position = (event.stream, event.seq, event.position) if event else ("", 0, 0)
        return errors.ProjectionFailed(
            name=self.projection.name, stream=stream, seq=seq, position=position, reason=reason
        )
