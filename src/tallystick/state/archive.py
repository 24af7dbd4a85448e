"""What pruning asks of an archive: whether it holds what is about to go. Who keeps archives is not known here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tallystick.event.model import Event


class Archive(Protocol):
    """A second place for the events of a log, checked when it is asked."""

    @property
    def through(self) -> int:
        """The last position that it goes to."""
        ...

    @property
    def witness(self) -> dict[str, Any]:
        """What the log is to remember of the archive, so that a change of it shows; plain JSON."""
        ...

    def why_not(self, events: Sequence[Event]) -> str | None:
        """Why these events could not be had from it again; None if it holds each of them, and can prove it."""
        ...
