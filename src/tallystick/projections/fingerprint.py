"""The fingerprint of a projection: sha256 over the lines `key ‖ state hash` in the order of their keys.

A line is the key, a newline, the sha256 of the state's canonical bytes in hex, a newline. A backslash in a key is
written as two and a newline as `\\n`, so that no key can look like two lines. Keys are ordered by their UTF-8 bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from tallystick.store.views import ViewRow


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """The digest of all rows at one position. Comparable only where name, definition and position are the same."""

    name: str
    definition: bytes
    position: int
    rows: int
    digest: str


class Digest:
    """Takes rows in the order of their keys."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.rows = 0

    def add(self, rows: Iterable[ViewRow]) -> None:
        """Take in more rows."""
        for row in rows:
            assert row.state is not None
            self._sha256.update(line(row.key, row.state))
            self.rows += 1

    def hex(self) -> str:
        """The digest of what was taken in so far."""
        return self._sha256.hexdigest()


def line(key: str, state: bytes) -> bytes:
    """What one row contributes."""
    escaped = key.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{escaped}\n{hashlib.sha256(state).hexdigest()}\n".encode()
