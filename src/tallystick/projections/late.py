"""A view whose events may arrive late: it is rolled back to an earlier snapshot and folded again, once per batch.

The views of communities use it: in any order of arrival, the view ends as if the events had come in the merged order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from tallystick import errors
from tallystick.event import canonical
from tallystick.event.model import Event
from tallystick.projections import merged_order

SNAPSHOT_EVENTS = 1000
SNAPSHOTS_MAX = 16


class RewindableView(Protocol):
    """A view that can be rolled back. Its state is plain JSON."""

    def reset(self) -> None: ...
    def apply(self, event: Event) -> None: ...
    def snapshot_state(self) -> Any: ...
    def restore_state(self, state: Any) -> None: ...


History = Callable[[bytes], Iterable[Event]]
"""Every event after a mark, in the merged order, including those of the batch."""


class LateView:
    """Feeds a view in the merged order. `refolds` counts how often it was rolled back."""

    def __init__(
        self,
        view: RewindableView,
        history: History,
        *,
        mark_of: Callable[[Event], bytes | None] = merged_order.mark_of,
        snapshot_events: int = SNAPSHOT_EVENTS,
    ) -> None:
        self.view = view
        self.refolds = 0
        self._history = history
        self._mark_of = mark_of
        self._snapshot_events = snapshot_events
        self._snapshots: list[tuple[bytes, bytes]] = []  # (mark, state), ascending
        self._since = 0
        self.last = b""
        view.reset()

    def take(self, events: Sequence[Event]) -> None:
        """Apply a batch of recorded events. If one sorts before the last applied event, the view is rolled back."""
        batch = sorted((self._mark(event), event) for event in events)
        if not batch:
            return
        if batch[0][0] > self.last:
            for mark, event in batch:
                self._apply(mark, event)
        else:
            self._roll_back(batch[0][0])

    def _roll_back(self, first: bytes) -> None:
        self.refolds += 1
        self._snapshots = [snapshot for snapshot in self._snapshots if snapshot[0] < first]
        self.last, state = self._snapshots[-1] if self._snapshots else (b"", b"")
        if state:
            self.view.restore_state(canonical.decode(state))
        else:
            self.view.reset()
        self._since = 0
        for event in self._history(self.last):
            self._apply(self._mark(event), event)

    def _apply(self, mark: bytes, event: Event) -> None:
        self.view.apply(event)
        self.last = mark
        self._since += 1
        if self._since >= self._snapshot_events:
            self._since = 0
            self._snapshots.append((mark, canonical.encode_state(self.view.snapshot_state())))
            if len(self._snapshots) > SNAPSHOTS_MAX:
                del self._snapshots[: SNAPSHOTS_MAX // 2 : 2]  # drop every second of the older ones

    def _mark(self, event: Event) -> bytes:
        mark = self._mark_of(event)
        if mark is None:
            raise errors.InvalidValue(what="lamport", value=None, must=f"in the meta of seq {event.seq}")
        return mark
