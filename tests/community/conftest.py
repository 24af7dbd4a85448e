"""Communities in memory and in SQLite: a founder, members, and logs to put them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick.community import EventLog, KeyPair
from tallystick.testing.community.people import Author, keys


@pytest.fixture
def founder() -> KeyPair:
    """The founder's key, which names the community."""
    return keys(1)


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Callable[..., EventLog]]:
    """Open a community's log over a store: in memory, or in the SQLite file of that name; all are closed at the end."""
    stores: list[tallystick.Store] = []

    def open_(community: str, *, node: str | None = None, file: str | None = None, **options: Any) -> EventLog:
        url = "memory:" if file is None else f"sqlite:{tmp_path / file}"
        stores.append(tallystick.open(url, profile="community"))
        return EventLog(stores[-1], community, node=node, **options)

    yield open_
    for store in stores:
        store.close()


@pytest.fixture
def log(open_log: Callable[..., EventLog], founder: KeyPair) -> EventLog:
    """The founder's log, with its first event."""
    made = open_log(founder.node, node=founder.node)
    made.append_local("community.created", {"name": "test"}, founder)
    return made


@pytest.fixture
def author(founder: KeyPair) -> Callable[[int], Author]:
    """Somebody who signs for the founder's community."""
    return lambda number: Author(keys(number), founder.node)


@pytest.fixture
def member(log: EventLog, founder: KeyPair, author: Callable[[int], Author]) -> Callable[..., Author]:
    """Somebody who was invited and has joined the founder's log."""

    def join(number: int, role: str = "member") -> Author:
        joined = author(number)
        log.append_local("community.member.invited", {"node": joined.node, "role": role}, founder)
        joined.lamport = log.head()
        log.append_received(joined.write("community.member.joined", {"invite": joined.node}))
        return joined

    return join
