"""A database for every test, and handles on the store in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import Store
from tallystick.testing import postgres


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a new database, for its superuser."""
    with postgres.database() as url:
        yield url


@contextmanager
def handles(url: str) -> Iterator[Callable[..., Store]]:
    """Open a store, as often as needed. All handles are closed at the end."""
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(tallystick.open(url, **options))


@pytest.fixture
def reopen(url: str) -> Iterator[Callable[..., Store]]:
    """Open the store of this test, as often as needed."""
    with handles(url) as opened:
        yield opened


@pytest.fixture
def store(reopen: Callable[..., Store]) -> Store:
    """An open store."""
    return reopen()


@pytest.fixture
def connect(url: str) -> Iterator[Callable[..., psycopg.Connection[Any]]]:
    """A connection without the engine, under a role of the store; without one, as the superuser."""
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
def login(url: str, store: Store) -> Iterator[Callable[..., str]]:
    """Create a role that can log in and has roles of the store. Returns the URL to log in with."""
    with ExitStack() as made:
        yield lambda *roles: made.enter_context(postgres.login(url, *roles))


def wait_for_a_lock(connect: Callable[..., psycopg.Connection[Any]]) -> None:
    """Wait until a session in this database waits for a lock."""
    connection, deadline = connect(), time.monotonic() + 30
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while connection.execute(waiting).fetchone() == (0,):
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.005)
