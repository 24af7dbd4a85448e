"""A database for every test, and handles on the store in it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg import conninfo, sql

import tallystick
from tallystick import Store
from tallystick.testing import postgres


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a new database, as its superuser."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def reopen(url: str) -> Iterator[Callable[..., Store]]:
    """Open the store of this test, as often as asked; all are closed at the end."""
    opened: list[Store] = []

    def open_(**options: Any) -> Store:
        opened.append(tallystick.open(url, **options))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(reopen: Callable[..., Store]) -> Store:
    """An open store."""
    return reopen()


@pytest.fixture
def connect(url: str) -> Iterator[Callable[..., psycopg.Connection[Any]]]:
    """A connection past the engine, under a role of the store; the superuser's without one."""
    opened: list[psycopg.Connection[Any]] = []

    def open_(role: str | None = None, **options: Any) -> psycopg.Connection[Any]:
        opened.append(psycopg.connect(url, **({"autocommit": True} | options)))
        if role is not None:
            opened[-1].execute("SELECT set_config('role', %s, false)", (role,))
            opened[-1].commit()
        return opened[-1]

    yield open_
    for connection in opened:
        connection.close()


@pytest.fixture
def login(url: str, store: Store) -> Iterator[Callable[[str], str]]:
    """Make a role that can log in and is granted one role of the store; gives the URL to log in with."""
    made: list[str] = []

    def make(role: str) -> str:
        made.append(f"tally_test_{secrets.token_hex(6)}")
        name = sql.Identifier(made[-1])
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'p'").format(name))
            connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), name))
        parts = conninfo.conninfo_to_dict(url) | {"user": made[-1], "password": "p"}
        return f"postgresql://{made[-1]}:p@/{parts['dbname']}?" + urlencode(
            {key: str(value) for key, value in parts.items() if key in ("host", "port")}
        )

    yield make
    with psycopg.connect(url, autocommit=True) as connection:
        for name in made:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (name,))
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def wait_for_a_lock(connect: Callable[..., psycopg.Connection[Any]]) -> None:
    """Wait until somebody in this database waits for a lock."""
    connection, deadline = connect(), time.monotonic() + 30
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while connection.execute(waiting).fetchone() == (0,):
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.005)
