"""The connections of one handle, all set up alike: role, org, isolation, time to wait for locks.

Invariants: a connection is outside of any transaction when it comes out of the pool and when it goes back. What a
tenant's read changed in it (role, org) ended with the transaction. It has the history that this handle has read
(`history.py`): that is checked before its first use, and through a pooler whenever another server responds.

A pooler may give every transaction another server process. So nothing is set for the session then: each transaction
begins with its role, its org and the rest, and no statement is prepared under a name.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

import psycopg
from psycopg_pool import ConnectionPool

from tallystick import errors
from tallystick.engines.postgres import arrays, statements, translate
from tallystick.engines.postgres.history import History
from tallystick.engines.tables.process import OwnerProcess
from tallystick.store.urls import redacted

APPLICATION = "tallystick"
_CONNECT_S = 10.0
SERVICE, TENANT = "tally_app", "tally_reader"
CONTROL, PROJECTOR, MAINTENANCE = "tally_control", "tally_projector", "tally_maintenance"
SEARCH_PATH = "pg_catalog, pg_temp"  # a statement of ours calls no function of others by its name


class ReadConnections(Protocol):
    """The connections of a handle or of one of its tenants, for reading."""

    url: str
    address: str
    org: str | None
    history: History
    process: OwnerProcess

    def rows(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]: ...
    def value(self, name: str, values: Any = ()) -> Any: ...
    def fetch(self, query: Any, values: Any = ()) -> list[tuple[Any, ...]]: ...
    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]: ...
    def transaction(self) -> AbstractContextManager[psycopg.Connection[Any]]: ...
    def reading_over(self, connection: psycopg.Connection[Any]) -> AbstractContextManager[None]: ...
    def open(self) -> None: ...
    def close(self) -> None: ...


class _ReadStatements:
    """Statements that only read, over the connections of a subclass."""

    def __init__(self) -> None:
        self._own = threading.local()

    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A connection. Errors are ours."""
        raise NotImplementedError

    def renew(self) -> None:
        """Replace the connections that the server closed."""
        raise NotImplementedError

    def rows(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement. If the connection is lost, it is sent a second time."""
        return self.fetch(statements.named(name), values)

    def value(self, name: str, values: Any = ()) -> Any:
        """The one value that a statement returns."""
        ((value,),) = self.rows(name, values)
        return value

    def fetch(self, query: Any, values: Any = ()) -> list[tuple[Any, ...]]:
        """As `rows`, for a statement that was put together."""
        try:
            return self._fetch(query, values)
        except errors.NotReachable as unreachable:
            if not translate.is_lost(unreachable.__cause__ or unreachable):
                raise
        self.renew()
        return self._fetch(query, values)

    def _fetch(self, query: Any, values: Any) -> list[tuple[Any, ...]]:
        own: psycopg.Connection[Any] | None = getattr(self._own, "connection", None)
        if own is not None:
            return own.execute(query, values, binary=True).fetchall()  # its holder translates the errors
        return self._fetch_from_pool(query, values)

    def _fetch_from_pool(self, query: Any, values: Any) -> list[tuple[Any, ...]]:
        with self.connection() as connection:
            return connection.execute(query, values, binary=True).fetchall()

    @contextmanager
    def reading_over(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Use a connection that this thread already holds, and the transaction that is open there."""
        before = getattr(self._own, "connection", None)
        self._own.connection = connection
        try:
            yield
        finally:
            self._own.connection = before


class ServerConnections(_ReadStatements):
    """Connections to one database under one role. `org` limits everything they see to one tenant.

    `pooled` says that a pooler is in front of the server.
    """

    def __init__(
        self,
        url: str,
        *,
        role: str,
        org: str | None,
        readonly: bool,
        busy_ms: int,
        connections_max: int,
        pooled: bool = False,
    ) -> None:
        super().__init__()
        self.url = redacted(url)
        self.address = url
        self.org = org
        self.busy_ms = busy_ms
        self.pooled = pooled
        self.history = History(self.url, of_tenant=org is not None and role == TENANT)
        self._readonly = readonly
        self._scope = {"role": role, "org": org or "", "search_path": SEARCH_PATH, "lock_timeout": str(busy_ms)}
        self._settings = {
            "role": role,
            "tally.org": org or "",
            "search_path": SEARCH_PATH,
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "on" if readonly else "off",
            "lock_timeout": str(busy_ms),
        }
        self._pool = ConnectionPool(
            url,
            min_size=1,
            max_size=connections_max,
            timeout=_CONNECT_S,
            num_workers=1,
            open=False,
            configure=self._set_up,
            kwargs={"autocommit": True, "application_name": APPLICATION},
        )
        self._closed = False
        self.process = OwnerProcess()  # a forked child would read the answers of its parent
        self._checked: WeakSet[psycopg.Connection[Any]] = WeakSet()
        self._begun: WeakKeyDictionary[psycopg.Connection[Any], psycopg.Cursor[Any]] = WeakKeyDictionary()

    def open(self) -> None:
        """Connect."""
        self._pool.open()

    def _set_up(self, connection: psycopg.Connection[Any]) -> None:
        for kind, dumper in arrays.DUMPERS.items():
            connection.adapters.register_dumper(kind, dumper)
        if self.pooled:
            connection.prepare_threshold = None
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection.read_only = self._readonly
            return
        for name, value in self._settings.items():
            connection.execute(statements.named("set_setting"), (name, value))
        if is_pooled(connection):
            raise errors.UnsafeServer(url=self.url, reason="some of its connections go through a pooler, others do not")

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        """Begin a transaction; through a pooler, with everything that it needs."""
        if not self.pooled:
            connection.execute("BEGIN")
            return
        connection.execute(statements.named("begin_reading" if self._readonly else "begin_writing"))
        self._begun[connection] = connection.execute(statements.named("take_scope"), self._scope)

    def require_same_history(self, connection: psycopg.Connection[Any]) -> None:
        """Through a pooler, refuse the transaction that `begin` began if another server responds and lacks events."""
        begun = self._begun.pop(connection, None)
        if begun is not None and not self._is_on_checked_server(begun):
            self.history.check(connection)

    def _is_on_checked_server(self, begun: psycopg.Cursor[Any]) -> bool:
        row = begun.fetchone()
        return row is not None and self.history.is_checked(row[0])

    def set_up_elsewhere(self, more: dict[str, str]) -> tuple[str, ...]:
        """The statements that set up a connection of another driver like these, with some more settings."""
        if self.pooled:
            reason = "a pooler is in front of it, and another driver's session cannot be set up there; connect directly"
            raise errors.UnsafeServer(url=self.url, reason=reason)
        with self.connection() as connection, psycopg.ClientCursor(connection) as cursor:
            statement = statements.named("set_setting")
            return tuple(cursor.mogrify(statement, setting) for setting in (self._settings | more).items())

    def quoted(self, query: Any, values: Any) -> str:
        """A statement with its values quoted in it."""
        with self.connection() as connection, psycopg.ClientCursor(connection) as cursor:
            return cursor.mogrify(query, values)

    @contextmanager
    def raw_connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection. Errors are PostgreSQL's own."""
        self.process.require()
        if self._closed:
            raise errors.StoreClosed()
        connection = self._pool.getconn()
        try:  # not `with self._pool.connection()`, which ends a transaction that is never open here
            if not self.pooled and connection not in self._checked:
                self._check(connection)
            yield connection
        finally:
            self._pool.putconn(connection)

    def _check(self, connection: psycopg.Connection[Any]) -> None:
        try:
            self.history.check(connection)
        except errors.HistoryReplaced:
            connection.close()
            raise
        self._checked.add(connection)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as problem:
            raise translate.of(problem, url=self.url, waited_ms=self.busy_ms) from problem

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection for one statement, which is a transaction by itself. Errors are ours."""
        if self.pooled:
            with self.transaction() as connection:
                yield connection
            return
        with self._translated(), self.raw_connection() as connection:
            yield connection

    @contextmanager
    def transaction(self, *, read_write: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """A connection in a transaction. Errors are ours. With `read_write` a handle for reading can write, too."""
        with self._translated(), self.raw_connection() as connection, connection.transaction():
            if read_write:
                connection.execute("SET TRANSACTION READ WRITE")
            if self.pooled and not self._is_on_checked_server(
                connection.execute(statements.named("take_scope"), self._scope)
            ):
                self.history.check(connection)
            yield connection

    def _fetch_from_pool(self, query: Any, values: Any) -> list[tuple[Any, ...]]:
        """Through a pooler, the beginning of the transaction and the statement go in one round trip, too."""
        if not self.pooled:
            return super()._fetch_from_pool(query, values)
        with self._translated(), self.raw_connection() as connection:
            try:
                with connection.pipeline():
                    self.begin(connection)
                    answer = connection.execute(query, values, binary=True)
                self.require_same_history(connection)
                connection.execute("COMMIT")
            except BaseException:
                if not connection.closed:
                    connection.rollback()
                raise
            return answer.fetchall()

    @contextmanager
    def committing(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Send what the block executes in one round trip, and commit in the same one unless there is a pooler.

        At the end of a pipeline psycopg asks for a flush. PgBouncer assigns a server to a client that sends anything,
        and takes it back at the next end of a transaction, which does not come after a flush.
        """
        with connection.pipeline():
            yield
            if not self.pooled:
                connection.execute("COMMIT")
        if self.pooled:
            connection.execute("COMMIT")

    def renew(self) -> None:
        """Replace the connections that the server closed."""
        self.process.require()
        self._pool.check()

    def of_tenant(self, org: str) -> TenantConnections:
        """The same connections, limited to one tenant's events."""
        return TenantConnections(self, org)

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if not self.process.is_current:
            return
        self._pool.close()


class TenantConnections(_ReadStatements):
    """A service's connections, which become a tenant's reader for one transaction each."""

    def __init__(self, shared: ServerConnections, org: str) -> None:
        super().__init__()
        self.url = shared.url
        self.address = shared.address
        self.org: str | None = org
        self.history = shared.history
        self.process = shared.process
        self._shared = shared

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        with self._shared.transaction() as connection:
            connection.execute(statements.named("become_tenant"), (self.org,))
            yield connection

    transaction = connection

    def renew(self) -> None:
        self._shared.renew()

    def open(self) -> None:
        """Do nothing: the service's connections are open."""

    def close(self) -> None:
        """Do nothing: the connections belong to the service."""


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Whether a pooler responds: at the start it reports a server process number of its own."""
    row = connection.execute(statements.named("list_backend")).fetchone()
    return row is None or row[0] != connection.info.backend_pid
