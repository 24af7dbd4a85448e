"""Opening the database of a store: find the log, create it if asked, migrate it, and check that it is safe to use.

Refused are a database that could lose what was acknowledged, a sequence that could hide events from readers, and a
role that bypasses row-level security.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg

from tallystick import errors
from tallystick.engines.postgres import migrations, statements, translate
from tallystick.engines.postgres.connections import APPLICATION, MAINTENANCE, PROJECTOR, SERVICE, TENANT, is_pooled
from tallystick.engines.tables.migrations import Migration
from tallystick.store.backoff import Backoff
from tallystick.store.urls import redacted

_CONNECT_S = 10
_TRIES = 60  # more than two seconds
_COLLISIONS = (
    *(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject, psycopg.errors.DuplicateSchema),
    psycopg.errors.InternalError_,
)


class Login(msgspec.Struct, frozen=True):
    """Who logged in: the roles of a store that it may become, and a right that it has beyond running projections."""

    roles: frozenset[str]
    more_rights: str | None

    def require(self, role: str, *, url: str) -> None:
        """Refuse a login that was not granted a role."""
        if role not in self.roles:
            raise errors.NotPermitted(url=url, reason=f"the role that logs in is not a member of {role}")

    @property
    def maintains(self) -> bool:
        """Whether it may prune, erase, drop and forget."""
        return MAINTENANCE in self.roles

    @property
    def projects(self) -> bool:
        """Whether it runs projections and can do nothing more. Then it may own tables, and use those of others."""
        return PROJECTOR in self.roles and self.more_rights is None


class OpenedDatabase(msgspec.Struct, frozen=True):
    """What opening found: the store, who logged in, and the role to use it as."""

    store_id: bytes
    profile: str
    role: str
    login: Login
    standby: bool
    pooled: bool
    recovered: tuple[str, ...]


class DatabaseOpener:
    """Opens one database. A tenant reads with an org, a service acts for all or for one."""

    def __init__(
        self, url: str, *, profile: str | None, clock: Callable[[], int], org: str | None, readonly: bool
    ) -> None:
        self.url = redacted(url)
        self._secret_url = url
        self._profile = profile or "plain"
        self._clock = clock
        self._tenant = org is not None and readonly
        self._readonly = readonly

    def open(self, *, create: bool) -> OpenedDatabase:
        """Find, create or migrate the log."""
        with self._connected() as connection:
            with migrations.protected(connection):
                self._require_own_schemas(connection)
                found = migrations.version_of(connection)
            if found == 0 and not create:
                raise errors.StoreNotFound(url=self.url)
            migrations.require_known(found, path=self.url)
            if found < migrations.latest() and self._readonly:
                raise errors.OlderFormat(path=self.url, found=found, known=migrations.latest())
            taken = self._migrate(connection) if found < migrations.latest() else []
            recovered = (f"migrated from format {found} to {taken[-1].number}",) if found and taken else ()
            with migrations.protected(connection):
                return self._check(connection, is_pooled(connection), recovered)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with psycopg.connect(
                self._secret_url, autocommit=True, application_name=APPLICATION, connect_timeout=_CONNECT_S
            ) as connection:
                yield connection
        except psycopg.ProgrammingError as problem:
            if problem.sqlstate is None:
                message = str(problem).replace(self._secret_url, self.url)  # libpq may quote the whole URL
                reason = " ".join(message.split())
                raise errors.UnknownUrl(url=self.url, reason=reason) from problem
            raise translate.of(problem, url=self.url, waited_ms=0) from problem
        except psycopg.Error as problem:
            if "does not exist" in str(problem) and "database" in str(problem):  # libpq has no code for it
                raise errors.StoreNotFound(url=self.url) from problem
            raise translate.of(problem, url=self.url, waited_ms=0) from problem

    def _migrate(self, connection: psycopg.Connection[Any]) -> list[Migration]:
        """Take the missing steps. Other processes may do so too, and roles belong to the whole server."""
        backoff = Backoff("migration", tries_max=_TRIES)
        while True:
            try:
                return migrations.migrate(connection, profile=self._profile, clock=self._clock)
            except _COLLISIONS:
                if not backoff.pause():
                    raise

    def _check(self, connection: psycopg.Connection[Any], pooled: bool, recovered: tuple[str, ...]) -> OpenedDatabase:
        login = self._login(connection)
        role = self._role(login)
        connection.execute(statements.named("set_local_setting"), ("role", role))
        self._require_row_security(connection)
        row = connection.execute(statements.named("check_server")).fetchone()
        assert row is not None
        encoding, synchronous, fsync, cache, standby, subscribes = row
        for wrong, reason in (
            (encoding != "UTF8", f"its encoding is {encoding}, not UTF8"),
            (synchronous == "off", "synchronous_commit is off: an acknowledged append could be lost"),
            (fsync == "off", "fsync is off: an acknowledged append could be lost"),
            (cache != 1, f"the sequence of positions has CACHE {cache}, not 1: readers could miss events"),
            (subscribes, "it is a logical replica, where events appear out of order: readers could miss some"),
        ):
            if wrong:
                raise errors.UnsafeServer(url=self.url, reason=reason)
        store_id, profile = connection.execute(statements.named("identity")).fetchone() or (b"", "")
        return OpenedDatabase(store_id, profile, role, login, standby, pooled, recovered)

    def _login(self, connection: psycopg.Connection[Any]) -> Login:
        roles = frozenset(role for _, role in connection.execute(statements.named("find_roles")).fetchall())
        more = connection.execute(statements.named("find_more_rights")).fetchone()
        return Login(roles, None if more is None else more[0])

    def _role(self, login: Login) -> str:
        """The role to act as: the one with the fewest rights that can do what was asked for."""
        wanted = TENANT if self._tenant else SERVICE
        login.require(wanted, url=self.url)
        return wanted

    def _require_own_schemas(self, connection: psycopg.Connection[Any]) -> None:
        """Refuse a schema of another owner before anything is read in it: a view there could run code as this login."""
        found = connection.execute(statements.named("find_foreign_schema")).fetchone()
        if found is not None:
            reason = f"the schema {found[0]} belongs to {found[1]}, not to tally_owner; drop it or use another database"
            raise errors.UnsafeServer(url=self.url, reason=reason)

    def _require_row_security(self, connection: psycopg.Connection[Any]) -> None:
        role, bypasses = connection.execute(statements.named("check_role")).fetchone() or ("", True)
        if bypasses:
            raise errors.UnsafeServer(url=self.url, reason=f"the role {role} bypasses row-level security")
