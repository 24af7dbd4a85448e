"""The bare system: what the disk and SQLite themselves cost, with nothing checked and nothing derived."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.payloads import TYPE

_sync = getattr(os, "fdatasync", os.fsync)


class RawFile:
    """A file that grows by one write and one fdatasync at a time."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def append(self, data: bytes) -> None:
        """One durable write."""
        os.write(self._descriptor, data)
        _sync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class RawTable:
    """One table in SQLite, WAL and synchronous=FULL, filled with executemany."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(
            "CREATE TABLE events (position INTEGER PRIMARY KEY, stream TEXT, type TEXT, payload BLOB)"
        )

    def append(self, stream: str, payloads: Sequence[dict[str, Any]]) -> None:
        """One durable transaction."""
        encode = msgspec.json.encode
        rows = [(stream, TYPE, encode(body)) for body in payloads]
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO events (stream, type, payload) VALUES (?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


@contextmanager
def file(path: Path) -> Iterator[RawFile]:
    """A new raw file."""
    found = RawFile(path)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def table(path: Path) -> Iterator[RawTable]:
    """A new raw table."""
    found = RawTable(path)
    try:
        yield found
    finally:
        found.close()
