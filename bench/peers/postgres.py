"""Peers on the same PostgreSQL server: `eventsourcing`'s recorder of an application, and bare tables.

Each has a database of its own. `eventsourcing` keeps a global order by locking its table against other writers for each
insert; states are JSON bytes made in the measured loop by msgspec, which is quicker than the library's transcoder.
"""

from __future__ import annotations

import time
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


class WholeTable:
    """A table with the columns, constraints and indexes of `tally.events`, copied from it.

    `seq` and `id` are made by the client, checksum and link are 32 bytes that nobody computed: no heads, no chain, no
    triggers, no row security.
    """

    def __init__(self, url: str, like: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        with psycopg.connect(like) as source:
            columns = source.execute(_COLUMNS).fetchall()
            checks = source.execute(_CHECKS).fetchall()
            indexes = source.execute(_INDEXES).fetchall()
        self._connection.execute("CREATE SCHEMA tally; CREATE SEQUENCE tally.positions")
        parts = [f'"{name}" {kind}{collation} {null}' for name, kind, collation, null in columns]
        self._connection.execute(f"CREATE TABLE tally.events ({', '.join(parts + [check for (check,) in checks])})")
        self._connection.execute("ALTER TABLE tally.events ALTER position SET DEFAULT nextval('tally.positions')")
        for (index,) in indexes:
            self._connection.execute(index)
        self._seqs: dict[str, int] = {}

    def insert(self, stream: str, payload: dict[str, Any]) -> None:
        """One whole row, one commit."""
        text, now = msgspec.json.encode(payload).decode(), time.time_ns()
        self._seqs[stream] = seq = self._seqs.get(stream, 0) + 1
        values = (stream, seq, TYPE, 1, uuid.uuid4(), now, text, "{}", _HASH, _HASH, None, now, None, None, None)
        self._connection.execute(_INSERT, values)

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


_HASH = bytes(32)
_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod),
        CASE WHEN attcollation = '"C"'::regcollation THEN ' COLLATE "C"' ELSE '' END,
        CASE WHEN attnotnull THEN 'NOT NULL' ELSE '' END
    FROM pg_attribute WHERE attrelid = 'tally.events'::regclass AND attnum > 0 ORDER BY attnum
"""
_CHECKS = (
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'tally.events'::regclass AND contype = 'c'"
)
_INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'tally' AND tablename = 'events'"
_INSERT = """
    INSERT INTO tally.events (stream, seq, type, version, id, time, payload, meta, checksum, link, signature, recorded,
        org, app, env)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


@contextmanager
def whole_table(url: str, *, like: str) -> Iterator[WholeTable]:
    """In a new database, a table with all columns and indexes of the store in the database `like`."""
    found = WholeTable(url, like)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def table(url: str) -> Iterator[Table]:
    """A bare table in a new database."""
    found = Table(url)
    try:
        yield found
    finally:
        found.close()
