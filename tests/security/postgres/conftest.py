"""A database for every attack, the store in it, and logins of those who attack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

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
def login(url: str, store: Store) -> Iterator[Callable[..., str]]:
    """Make a role that can log in and is granted roles of the store; gives the URL to log in with."""
    with ExitStack() as made:
        yield lambda *roles: made.enter_context(postgres.login(url, *roles))
