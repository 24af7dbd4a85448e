"""A bound on what is under way. What does not fit is refused at once: waiting lines are where memory grows."""

from __future__ import annotations

from types import TracebackType
from typing import NoReturn

from tallystick import errors


class Gate:
    """Lets in so many at a time, of so many bytes together. For the tasks of one event loop."""

    def __init__(self, what: str, *, count_max: int, bytes_max: int | None = None) -> None:
        self._what = what
        self._count_max = count_max
        self._bytes_max = bytes_max
        self.count = 0
        self.bytes = 0
        self.refused = 0

    def enter(self, size: int = 0) -> Entry:
        """Come in, or `Overloaded`. A single one is let in whatever its size, else it never could be."""
        if self.count >= self._count_max:
            self.refuse()
        self.count += 1
        entry = Entry(self)
        try:
            entry.grow(size)
        except errors.Overloaded:
            self.count -= 1
            raise
        return entry

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes fit."""
        return self._bytes_max is None or self.count <= 1 or self.bytes + size <= self._bytes_max

    def refuse(self) -> NoReturn:
        """Send one away."""
        self.refused += 1
        raise errors.Overloaded(what=self._what)


class Entry:
    """One that is inside, until it leaves the `with` block."""

    __slots__ = ("_gate", "_size")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._size = 0

    def grow(self, size: int) -> None:
        """It became larger than it seemed; `Overloaded` if there is no room for that."""
        if not self._gate.has_room(size):
            self._gate.refuse()
        self._size += size
        self._gate.bytes += size

    def __enter__(self) -> Entry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Make room for others."""
        self._gate.count -= 1
        self._gate.bytes -= self._size
