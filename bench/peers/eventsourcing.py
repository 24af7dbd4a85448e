"""The Python library `eventsourcing`: its SQLite recorder of an application, which keeps a global order as we do.

It uses WAL, and leaves `synchronous` at SQLite's default; `Recorder` reads both back, and refuses less than FULL.
States are JSON bytes made in the measured loop by msgspec, which is quicker than the library's own transcoder.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.payloads import TYPE

UNEQUAL = "eventsourcing writes SQLite, WAL, synchronous=FULL: stream, version, topic, state; no checks, no hashes"
_FULL = 2


class Recorder:
    """An application recorder on one database."""

    def __init__(self, path: Path) -> None:
        from eventsourcing.persistence import StoredEvent
        from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

        self._stored = StoredEvent
        self.datastore = SQLiteDatastore(str(path))
        self._recorder = SQLiteApplicationRecorder(self.datastore)
        self._recorder.create_table()
        self._require_durable()

    def append(self, payloads: Sequence[dict[str, Any]]) -> None:
        """One durable insert into a new stream."""
        stored, encode, originator = self._stored, msgspec.json.encode, uuid.uuid4()
        self._recorder.insert_events(
            [stored(originator, version, TYPE, encode(body)) for version, body in enumerate(payloads, 1)]
        )

    def fill(self, payloads: Sequence[dict[str, Any]], count: int) -> None:
        """One stream of `count` events."""
        stored, encode = self._stored, msgspec.json.encode
        self._long = uuid.uuid4()
        for first in range(0, count, len(payloads)):
            self._recorder.insert_events(
                [stored(self._long, first + number, TYPE, encode(body)) for number, body in enumerate(payloads, 1)]
            )

    def fold(self, apply: Callable[[dict[str, int], Any], dict[str, int]], *, page: int = 5000) -> int:
        """Fold that stream, page after page, every state decoded."""
        value, last = {"items": 0, "orders": 0}, 0
        decode = msgspec.json.decode
        while events := list(self._recorder.select_events(self._long, gt=last, limit=page)):
            for event in events:
                value = apply(value, decode(event.state))
            last = events[-1].originator_version
        return value["orders"]

    def _require_durable(self) -> None:
        with self.datastore.transaction(commit=False) as cursor:
            found = []
            for pragma in ("journal_mode", "synchronous"):
                cursor.execute(f"PRAGMA {pragma}")
                found.append(cursor.fetchone()[0])
        if found != ["wal", _FULL]:
            raise RuntimeError(f"eventsourcing's SQLite runs with {found}, which is not comparable")


@contextmanager
def recorder(path: Path) -> Iterator[Recorder]:
    """A recorder on a new database."""
    found = Recorder(path)
    try:
        yield found
    finally:
        found.datastore.close()
