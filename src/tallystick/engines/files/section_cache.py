"""Sections of index files in memory, bounded in bytes."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Any, TypeAlias

CACHE_BYTES_MAX = 64 << 20  # the ids of three million events

StreamSections: TypeAlias = tuple[bytes, bytes]
"""The sections "entry_ends" and "entries": kept as one, since no stream is found without both."""


class SectionCache:
    """Sections of many indexes in memory, bounded in bytes."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._items: OrderedDict[tuple[int, str], Any] = OrderedDict()

    def get(self, key: tuple[int, str]) -> Any:
        """The section, if it is still here."""
        found = self._items.get(key)
        if found is not None:
            with contextlib.suppress(KeyError):  # another thread dropped it just now
                self._items.move_to_end(key)
        return found

    def clear(self) -> None:
        """Let go of everything."""
        self._items.clear()
        self._bytes = 0

    def put(self, key: tuple[int, str], data: bytes | StreamSections) -> None:
        """Keep a section; the ones not used for longest go."""
        self._bytes += _size(data) - _size(self._items.pop(key, b""))  # another thread may have put it meanwhile
        self._items[key] = data
        while self._bytes > self._bytes_max and len(self._items) > 1:
            try:
                _, dropped = self._items.popitem(last=False)
            except KeyError:
                return
            self._bytes -= _size(dropped)


def _size(data: bytes | StreamSections) -> int:
    return len(data) if isinstance(data, bytes) else sum(map(len, data))
