"""SQL tables that projections own, in a SQLite database next to the log, or in one in memory."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tallystick.engines.tables import schema, statements
from tallystick.engines.tables.connection import SqliteTransactions
from tallystick.engines.tables.views import OpenTransaction, SqliteViews
from tallystick.store.tables import Session, Values, table_name
from tallystick.store.views import Place


class SqliteTables:
    """The tables of one database. Its tables `views` and `view_rows` have the checkpoints of the projections."""

    def __init__(self, transactions: SqliteTransactions) -> None:
        self._transactions = transactions

    def reading(self) -> AbstractContextManager[Session]:
        """A transaction that only reads."""
        return _session(self._transactions.snapshot())

    def writing(self) -> AbstractContextManager[Session]:
        """A transaction that is durable when the block ends."""
        return _session(self._transactions.writing())


@contextmanager
def _session(transaction: AbstractContextManager[sqlite3.Connection]) -> Iterator[Session]:
    with transaction as connection:

        def execute(statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
            return connection.execute(statement, values).fetchall()

        views = SqliteViews(OpenTransaction(connection))

        def discard(place: Place) -> None:
            prefix = table_name(place.projection, place.epoch)
            for (statement,) in execute(statements.named("say_how_to_drop"), {"prefix": prefix}):
                connection.execute(statement)
            views.discard(place.projection, place.epoch, limit=1, live=True)

        yield Session(execute, views, discard)


class MemoryDatabase:
    """A database that ends with the process. One transaction at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.executescript(schema.script(*schema.VIEWS))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    snapshot = writing = _transaction
