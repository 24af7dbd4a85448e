"""The log in memory: the reference for the other engines. Nothing is durable."""

from __future__ import annotations

from tallystick.engines.memory.engine import MemoryLog, open_memory

__all__ = ["MemoryLog", "open_memory"]
