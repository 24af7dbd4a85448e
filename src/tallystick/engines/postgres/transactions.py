"""Where statements about what stands beside the log run: on connections of the pool, or in a transaction under way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import psycopg

from tallystick import errors
from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import ReadConnections


class Transactions(Protocol):
    """What transactions rows and letters needs."""

    def rows(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """The answer to a statement that only reads."""

    def change(self, name: str, values: Any) -> list[tuple[Any, ...]]:
        """The answer to a statement that writes, and is a transaction by itself where none is under way."""

    def writing(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A transaction of several statements."""


class OwnTransactions:
    """Connections of a handle, a transaction each. `refusal` says why it may not write."""

    def __init__(self, connections: ReadConnections, *, refusal: str | None) -> None:
        self._connections = connections
        self._refusal = refusal

    def rows(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return self._connections.rows(name, values)

    def change(self, name: str, values: Any) -> list[tuple[Any, ...]]:
        self.require_writing()
        with self._connections.using() as connection:
            return connection.execute(statements.named(name), values, binary=True).fetchall()

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection[Any]]:
        self.require_writing()
        with self._connections.transaction() as connection:
            yield connection

    def require_writing(self) -> None:
        """Refuse by name what this handle may not do."""
        if self._refusal is not None:
            raise errors.ReadOnly(reason=self._refusal)


class JoinedTransaction:
    """The connection of a transaction that somebody else began and will commit. Errors are PostgreSQL's own."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def rows(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statements.named(name), values, binary=True).fetchall()

    change = rows

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection[Any]]:
        yield self._connection
