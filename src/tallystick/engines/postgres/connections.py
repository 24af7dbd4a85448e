"""The pool of connections of one handle, each of them set up the same: role, org, isolation, time to wait for locks.

Invariant: a connection is outside of any transaction when it comes out of the pool, and when it goes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from tallystick import errors
from tallystick.engines.postgres import arrays, statements, translate

APPLICATION = "tallystick"
_POOL_MAX = 16
_CONNECT_S = 10.0


class Connections:
    """Connections to one database under one role. `org` limits everything they see to one tenant."""

    def __init__(self, url: str, *, role: str, org: str | None, readonly: bool, busy_ms: int) -> None:
        self.url = translate.shown(url)
        self.busy_ms = busy_ms
        self._settings = {
            "role": role,
            "tally.org": org or "",
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "on" if readonly else "off",
            "lock_timeout": str(busy_ms),
        }
        self._pool = ConnectionPool(
            url,
            min_size=1,
            max_size=_POOL_MAX,
            timeout=_CONNECT_S,
            num_workers=1,
            open=False,
            configure=self._set_up,
            kwargs={"autocommit": True, "application_name": APPLICATION},
        )
        self._closed = False

    def open(self) -> None:
        """Connect."""
        self._pool.open()

    def _set_up(self, connection: psycopg.Connection[Any]) -> None:
        for kind, dumper in arrays.DUMPERS.items():
            connection.adapters.register_dumper(kind, dumper)
        for name, value in self._settings.items():
            connection.execute(statements.named("set_setting"), (name, value))

    @contextmanager
    def given(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection, with PostgreSQL's own errors."""
        if self._closed:
            raise errors.StoreClosed()
        with self._pool.connection() as connection:
            yield connection

    @contextmanager
    def using(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection, with our errors."""
        try:
            with self.given() as connection:
                yield connection
        except psycopg.Error as problem:
            raise translate.of(problem, url=self.url, waited_ms=self.busy_ms) from problem

    def rows(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """The answer to a statement that only reads. It is asked once more if the connection turns out to be gone."""
        return self.answer(statements.named(name), values)

    def answer(self, query: Any, values: Any = ()) -> list[tuple[Any, ...]]:
        """As `rows`, for a statement that was made for the occasion."""
        with self.using() as connection:
            if not connection.closed:
                try:
                    return connection.execute(query, values, binary=True).fetchall()
                except psycopg.OperationalError as problem:
                    if not translate.is_lost(problem):
                        raise
        self.renew()
        with self.using() as connection:
            return connection.execute(query, values, binary=True).fetchall()

    def renew(self) -> None:
        """Replace the connections that a restart of the server has cut."""
        self._pool.check()

    def close(self) -> None:
        """Give every connection back to the server."""
        self._closed = True
        self._pool.close()
