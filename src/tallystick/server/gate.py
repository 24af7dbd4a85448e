"""A bound on requests in progress. A request that does not fit is refused at once, because queues make memory grow.

Half of a gate is first come, first served. The other half is kept for callers that use less than their share, so that
no caller takes everything. A caller without a name (`local`) has no share, because there are no other callers then.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import NoReturn

from tallystick import errors

SHARES = 8

CALLER: ContextVar[str | None] = ContextVar("caller", default=None)
"""The caller whose share the request of this task uses. Authorisation sets it."""


class _Use:
    """How much of a gate one caller uses, or all callers together."""

    __slots__ = ("bytes", "count")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0


class Gate:
    """Admits a bounded number of requests with a bounded total size. For the tasks of one event loop."""

    def __init__(self, what: str, *, count_max: int, bytes_max: int | None = None) -> None:
        self._what = what
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._all = _Use()
        self._callers: dict[str, _Use] = {}
        self.refused = 0

    @property
    def count(self) -> int:
        """The number of requests inside."""
        return self._all.count

    @property
    def bytes(self) -> int:
        """Their total size in bytes."""
        return self._all.bytes

    def enter(self, size: int = 0) -> Admission:
        """Enter, or raise `Overloaded`. A single request is admitted whatever its size; otherwise it never could be."""
        caller = CALLER.get()
        used = self._use_of(caller)
        if not fits(self._all.count + 1, None if used is None else used.count + 1, self._count_max):
            self.refuse()
        admission = Admission(self, caller)
        self._change(caller, count=1)
        try:
            admission.grow(size)
        except errors.Overloaded:
            admission.leave()
            raise
        return admission

    def has_room(self, caller: str | None, size: int) -> bool:
        """Whether this many more bytes of a caller fit."""
        if self._bytes_max is None or self._all.count <= 1:
            return True
        used = self._use_of(caller)
        return fits(self._all.bytes + size, None if used is None else used.bytes + size, self._bytes_max)

    def refuse(self) -> NoReturn:
        """Refuse a request."""
        self.refused += 1
        raise errors.Overloaded(what=self._what)

    def _use_of(self, caller: str | None) -> _Use | None:
        return None if caller is None else self._callers.get(caller, _NOTHING)

    def _change(self, caller: str | None, *, count: int = 0, size: int = 0) -> None:
        self._all.count += count
        self._all.bytes += size
        if caller is not None:
            used = self._callers.setdefault(caller, _Use())
            used.count += count
            used.bytes += size
            if not used.count:
                del self._callers[caller]


class Admission:
    """A request inside a gate, until the end of its `with` block."""

    __slots__ = ("_caller", "_gate", "_size")

    def __init__(self, gate: Gate, caller: str | None) -> None:
        self._gate = gate
        self._caller = caller
        self._size = 0

    def has_room(self, size: int) -> bool:
        """Whether this many more bytes fit now."""
        return self._gate.has_room(self._caller, size)

    def require_room(self, size: int) -> None:
        """Raise `Overloaded` if this many more bytes would not fit now. It reserves nothing."""
        if not self.has_room(size):
            self._gate.refuse()

    def grow(self, size: int) -> None:
        """Make it larger, or raise `Overloaded` if there is no room."""
        if size:
            self.require_room(size)
            self.change(size)

    def change(self, size: int) -> None:
        """Make it larger or smaller, whether there is room or not."""
        self._size += size
        self._gate._change(self._caller, size=size)

    def __enter__(self) -> Admission:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Leave the gate."""
        self._gate._change(self._caller, count=-1, size=-self._size)
        self._size = 0


_NOTHING = _Use()


def fits(together: int, own: int | None, limit: int) -> bool:
    """Whether a gate with this limit admits this total, of which this much is from one caller."""
    if together > limit:
        return False
    return own is None or together <= limit // 2 or own <= max(limit // SHARES, 1)
