"""What a contract test gets: a place for one store, which it can open any number of times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

import tallystick
from tallystick.store import capabilities
from tallystick.store.events import EventLog
from tallystick.store.store import Store
from tallystick.testing import tamper
from tallystick.testing.builders import event
from tallystick.testing.tamper import Change

_Test = TypeVar("_Test", bound=Callable[..., Any])


class EngineHarness(Protocol):
    """A place for one store of an engine. `many_writers`: several handles can be open for writing at the same time."""

    @property
    def url(self) -> str: ...
    @property
    def many_writers(self) -> bool: ...
    def open(self, **options: Any) -> Store:
        """Open another handle on the same place, with the options of `tallystick.open`."""

    def projector(self, store: Store) -> Store:
        """The handle that runs projections with tables: `store`, unless the engine needs a separate login for them."""

    def close(self) -> None:
        """Close every handle that is still open."""

    @property
    def forges_hashes(self) -> bool:
        """Whether the medium has a hash over all fields of an event, which `tamper` also forges."""

    def tamper(self, stream: str, seq: int, change: Change) -> None:
        """Change a stored event in storage, without the engine. `testing/tamper.py` does it for our engines."""

    def tamper_beside(self, statement: str) -> None:
        """Change `views`, `view_rows` or `checkpoints` in storage with a statement of SQLite, without the engine."""


class UrlHarness:
    """A place named by a URL. An engine of your own that is durable overrides `tamper` and `tamper_beside`."""

    def __init__(self, url: str, *, many_writers: bool = True, forges_hashes: bool = False) -> None:
        self.url = url
        self.many_writers = many_writers
        self.forges_hashes = forges_hashes
        self._opened: list[Store] = []

    def open(self, **options: Any) -> Store:
        """Open another handle."""
        store = tallystick.open(self.url, **options)
        self._opened.append(store)
        return store

    def projector(self, store: Store) -> Store:
        """Any handle can run projections with tables."""
        return store

    def close(self) -> None:
        """Close every handle that is still open."""
        while self._opened:
            self._opened.pop().close()

    def tamper(self, stream: str, seq: int, change: Change) -> None:
        """Change a stored event in storage, without the engine."""
        tamper.tamper(self.url, stream, seq, change)

    def tamper_beside(self, statement: str) -> None:
        """Change `views`, `view_rows` or `checkpoints` in storage, without the engine."""
        tamper.tamper_beside(self.url, statement)


def needs(*names: str) -> Callable[[_Test], _Test]:
    """Mark a test as one that needs capabilities."""
    unknown = set(names) - capabilities.ALL
    assert not unknown, unknown

    def mark(test: _Test) -> _Test:
        test.__dict__["needs"] = names
        return test

    return mark


class Contract:
    """The fixtures of every theme. The test class of an engine defines `make_harness`."""

    @classmethod
    def make_harness(cls, place: Path) -> EngineHarness:
        """A harness for a new store inside the empty directory `place`."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def log(cls, tmp_path_factory: pytest.TempPathFactory) -> EventLog:
        """A log of the engine, closed: it says which engine it is, and what it offers."""
        harness = cls.make_harness(tmp_path_factory.mktemp("log"))
        try:
            return harness.open().log
        finally:
            harness.close()

    @pytest.fixture
    def harness(self, request: pytest.FixtureRequest, tmp_path: Path, log: EventLog) -> Iterator[EngineHarness]:
        """A place for this test only. The test is skipped if the engine lacks a capability that it needs."""
        lacking = [name for name in getattr(request.function, "needs", ()) if name not in log.capabilities]
        if lacking:
            pytest.skip(f"the {log.engine} engine lacks the capability {', '.join(lacking)}")
        harness = self.make_harness(tmp_path)
        yield harness
        harness.close()

    @pytest.fixture
    def store(self, harness: EngineHarness) -> Store:
        """A new store, open for writing."""
        return harness.open()

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
        """One store that all tests of an engine share. They must leave it unchanged."""
        harness = cls.make_harness(tmp_path_factory.mktemp("shared"))
        store = harness.open()
        store.append("run/kept", event())
        yield store
        harness.close()
