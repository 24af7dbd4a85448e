"""Events in NDJSON, a line each, as `tallystick.event.line` writes it."""

from __future__ import annotations

from collections.abc import Iterable

from tallystick.event.line import line
from tallystick.event.model import Event

__all__ = ["line", "lines"]


def lines(events: Iterable[Event]) -> bytes:
    """Many events, a line each."""
    text = "\n".join(map(line, events))
    return (text + "\n").encode() if text else b""
