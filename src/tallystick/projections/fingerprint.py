"""The fingerprint of a projection: SHA-256 over the lines `key ‖ state hash` in order of key.

A line is the key, a newline, the SHA-256 of the state's canonical bytes in hex, and a newline. A backslash in a key is
written as two and a newline as `\\n`, so that no key can look like two lines. Keys are ordered by their UTF-8 bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from tallystick.store.views import ViewRow


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """The digest of all rows at one position. Comparable only if name, definition and position are equal."""

    name: str
    definition: bytes
    position: int
    rows: int
    digest: str


class Digest:
    """Computes the digest of rows, which come in order of key."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.rows = 0

    def add(self, rows: Iterable[ViewRow]) -> None:
        """Add more rows."""
        for row in rows:
            assert row.state is not None
            self._sha256.update(line(row.key, row.state))
            self.rows += 1

    def hex(self) -> str:
        """The digest of the rows so far."""
        return self._sha256.hexdigest()


def line(key: str, state: bytes) -> bytes:
    """The line of one row."""
    escaped = key.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{escaped}\n{hashlib.sha256(state).hexdigest()}\n".encode()
