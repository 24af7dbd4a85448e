"""The transactions in which rows and dead letters are kept: one each, or one that is already open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import psycopg

from tallystick import errors
from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import ReadConnections


class Transactions(Protocol):
    """Runs statements about rows and dead letters."""

    def rows(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """The rows that a reading statement returns."""

    def change(self, name: str, values: Any) -> list[tuple[Any, ...]]:
        """The rows that a writing statement returns. It is a transaction by itself if none is open."""

    def writing(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A transaction of several statements."""


class OwnTransactions:
    """A transaction each, over the connections of a handle. `refusal` says why it may not write."""

    def __init__(self, connections: ReadConnections, *, refusal: str | None) -> None:
        self._connections = connections
        self._refusal = refusal

    def rows(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return self._connections.rows(name, values)

    def change(self, name: str, values: Any) -> list[tuple[Any, ...]]:
        self.require_writing()
        with self._connections.connection() as connection:
            return connection.execute(statements.named(name), values, binary=True).fetchall()

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection[Any]]:
        self.require_writing()
        with self._connections.transaction() as connection:
            yield connection

    def require_writing(self) -> None:
        """Refuse to write if this handle may not."""
        if self._refusal is not None:
            raise errors.ReadOnly(reason=self._refusal)


class JoinedTransaction:
    """A transaction that the caller has begun and will commit. Errors are PostgreSQL's own."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def rows(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statements.named(name), values, binary=True).fetchall()

    change = rows

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection[Any]]:
        yield self._connection
