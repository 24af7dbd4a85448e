"""Events in NDJSON, a line each, as `tallystick.event.line` writes it."""

from __future__ import annotations

from tallystick.event.line import line, lines

__all__ = ["line", "lines"]
