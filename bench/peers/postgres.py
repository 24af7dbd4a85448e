"""Peers on the same PostgreSQL server: `eventsourcing`'s recorder of an application, and bare tables.

Each has a database of its own. `eventsourcing` keeps a global order by locking its table against other writers for each
insert; states are JSON bytes made in the measured loop by msgspec, which is quicker than the library's transcoder.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg

from bench.payloads import TYPE

UNEQUAL = "eventsourcing on the same server: stream, version, topic, state; no checks, no hashes"


class Recorder:
    """An application recorder on one database."""

    def __init__(self, url: str) -> None:
        from eventsourcing.persistence import StoredEvent
        from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

        parts = {key: str(value or "") for key, value in psycopg.conninfo.conninfo_to_dict(url).items()}
        self._stored = StoredEvent
        self.datastore = PostgresDatastore(
            dbname=parts["dbname"],
            host=parts.get("host", "localhost"),
            port=parts.get("port", "5432"),
            user=parts.get("user", "postgres"),
            password=parts.get("password", ""),
        )
        self._recorder = PostgresApplicationRecorder(self.datastore, events_table_name="stored_events")
        self._recorder.create_table()

    def append(self, payloads: Sequence[dict[str, Any]]) -> None:
        """One durable insert into a new stream."""
        stored, encode, originator = self._stored, msgspec.json.encode, uuid.uuid4()
        self._recorder.insert_events(
            [stored(originator, version, TYPE, encode(body)) for version, body in enumerate(payloads, 1)]
        )

    def read(self, *, page: int) -> int:
        """Read everything in order, page by page; says how many there were."""
        count, start = 0, 1
        while found := self._recorder.select_notifications(start=start, limit=page):
            count += len(found)
            start = found[-1].id + 1
        return count


@contextmanager
def recorder(url: str) -> Iterator[Recorder]:
    """A recorder on a new database."""
    found = Recorder(url)
    try:
        yield found
    finally:
        found.datastore.close()


class Table:
    """A bare table: a key, a stream and a payload."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(
            "CREATE TABLE bare (position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, stream text, payload text)"
        )

    def insert(self, stream: str, payload: dict[str, Any]) -> None:
        """One row, one commit."""
        text = msgspec.json.encode(payload).decode()
        self._connection.execute("INSERT INTO bare (stream, payload) VALUES (%s, %s)", (stream, text))

    def copy(self, stream: str, payloads: Sequence[dict[str, Any]]) -> None:
        """Many rows by COPY, one commit."""
        with self._connection.cursor().copy("COPY bare (stream, payload) FROM STDIN") as copy:
            for payload in payloads:
                copy.write_row((stream, msgspec.json.encode(payload).decode()))

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


@contextmanager
def table(url: str) -> Iterator[Table]:
    """A bare table in a new database."""
    found = Table(url)
    try:
        yield found
    finally:
        found.close()
