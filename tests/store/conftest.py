"""A store view of dicts, on which a ledger can be tried without an engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallystick import Event, NewEvent
from tallystick.event import ids, profiles
from tallystick.event.catalog import Catalog
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.leases import Lease
from tallystick.store.ledger import Head, Holder, Ledger
from tallystick.store.prepare import Part, Preparer, Request
from tallystick.testing.clock import ManualClock


class DictView:
    """What is stored, and commits to it by any holder."""

    def __init__(self) -> None:
        self.events: dict[bytes, Event] = {}
        self.heads: dict[str, Head] = {}
        self.sources: dict[tuple[str, str], int] = {}
        self.leases: dict[str, Lease] = {}

    def stream_head(self, stream: str) -> Head | None:
        """The end of a stream."""
        return self.heads.get(stream)

    def find(self, id: bytes) -> Event | None:
        """An event by id."""
        return self.events.get(id)

    def source_head(self, org: str, source: str) -> int:
        """The last number of a source of an org."""
        return self.sources.get((org, source), 0)

    def lease(self, stream: str) -> Lease | None:
        """The latest lease on a stream."""
        return self.leases.get(stream)

    def cut(self, stream: str) -> None:
        """Nothing is pruned here."""

    def pruned(self, id: bytes) -> bool:
        """Nothing is pruned here."""
        return False

    def command(self, key: object) -> None:
        """No command was run here."""

    def ledger(self, holder: Holder) -> Ledger:
        """A ledger over what is stored."""
        return Ledger(self, next_position=len(self.events) + 1, holder=holder)

    def commit(self, ledger: Ledger) -> None:
        """Store what a ledger collected."""
        self.events |= {row[5]: Event(*row) for row in ledger.rows}
        self.heads |= ledger.heads
        self.sources |= ledger.sources
        self.leases |= {lease.stream: lease for lease in ledger.leases}
        ledger.committed()


@pytest.fixture
def view() -> DictView:
    """A view with nothing in it."""
    return DictView()


@pytest.fixture
def preparer() -> Preparer:
    """A preparer of a plain store without a guard."""
    return Preparer(
        profile=profiles.named("plain"), clock=ManualClock(), catalog=Catalog(), guard=None, minter=ids.Minter()
    )


@pytest.fixture
def prepared(preparer: Preparer) -> Callable[..., Transaction]:
    """A transaction of (stream, events, expected) parts."""

    def make(*parts: tuple[str, list[NewEvent], int]) -> Transaction:
        outcome = preparer.prepare([Request([Part(*part) for part in parts])])[0]
        assert isinstance(outcome, Transaction)
        return outcome

    return make


@pytest.fixture
def outcome_names() -> Callable[[list[Outcome]], list[str]]:
    """The names of errors, `done` for the others."""
    return lambda found: [type(item).__name__ if isinstance(item, Exception) else "done" for item in found]
