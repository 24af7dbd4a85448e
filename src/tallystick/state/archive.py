"""What pruning needs of an archive: whether it has the events to be pruned. This module knows no kind of archive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tallystick.event.model import Event


class Archive(Protocol):
    """A second place for the events of a log, which is checked whenever it is used."""

    @property
    def through(self) -> int:
        """The last position that it has."""
        ...

    @property
    def witness(self) -> dict[str, Any]:
        """What the log records about the archive, so that a later change of it shows; plain JSON."""
        ...

    def why_not(self, events: Sequence[Event]) -> str | None:
        """Why these events could not be restored from it; None if it has each of them, and can prove it."""
        ...
