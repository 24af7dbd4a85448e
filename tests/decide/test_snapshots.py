"""Snapshots of deciders: used if they are of this code and this history, and otherwise left alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import tallystick
from tallystick import Store, errors, state
from tallystick.decide import Decider, Decisions, FunctionDecider
from tallystick.testing.bank import Account, AccountEvent, Deposited, Opened, SnapshottedAccount, Withdrawn, catalog

STREAM = "account/42"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with an account of nine deposits, and snapshots of it."""
    with tallystick.open(f"files:{tmp_path}/log", catalog=catalog) as store:
        accounts = Decisions(store, SnapshottedAccount)
        for _ in range(9):
            accounts.run(STREAM, SnapshottedAccount.deposit, 1)
        yield store


class Renewed(SnapshottedAccount):
    """Another version."""

    name = "SnapshottedAccount"
    version = 2


class Changed(SnapshottedAccount):
    """Other code under the same name and version."""

    name = "SnapshottedAccount"

    def evolve(self, state: int, event: AccountEvent) -> int:
        """Count in cents."""
        return state + 100 * (super().evolve(state, event) - state)


class BeginsElsewhere(SnapshottedAccount):
    """Another first state under the same name and version."""

    name = "SnapshottedAccount"

    def initial(self) -> int:
        return 1_000


def test_the_snapshot_of_the_same_code_is_used(store: Store) -> None:
    """TAG-06: the last snapshot is the one before the last decisions."""
    loaded = Decisions(store, SnapshottedAccount).load(STREAM)
    assert (loaded.state, loaded.seq, loaded.folded) == (9, 9, 3)


@pytest.mark.parametrize(("decider", "balance"), [(Renewed, 9), (Changed, 900), (BeginsElsewhere, 1009), (Account, 9)])
def test_a_snapshot_of_other_code_is_not_used(store: Store, decider: Any, balance: int) -> None:
    """TAG-06: another version, another evolve, another first state, another decider: the stream is folded whole."""
    loaded = Decisions(store, decider).load(STREAM)
    assert (loaded.state, loaded.seq, loaded.folded) == (balance, 9, 9)


def test_a_snapshot_from_before_an_erasure_is_not_used(store: Store) -> None:
    """TAG-06: an erased payload does not live on in a state."""
    state.erase(store, STREAM, 2, reason="request")
    with pytest.raises(errors.PayloadErased, match="seq 2"):
        Decisions(store, SnapshottedAccount).load(STREAM)


def test_a_pruned_stream_is_loaded_from_its_snapshot(store: Store) -> None:
    """TAG-06: after a prune the state is that of before; without the snapshot the history is said to be gone."""
    accounts = Decisions(store, SnapshottedAccount)
    assert state.prune(store, STREAM, before=8, reducers=[accounts.reducer], snapshot=True, accept=True) == 7
    assert (accounts.load(STREAM).state, accounts.run(STREAM, SnapshottedAccount.withdraw, 9).seq) == (9, 10)
    with pytest.raises(errors.HistoryPruned):
        Decisions(store, Changed).load(STREAM)


# --- forms of a state ------------------------------------------------------------------------------------------------


class Line(BaseModel):
    """A part of a state."""

    at: datetime
    amount: Decimal


@dataclass(frozen=True)
class Book:
    """A state that is not JSON."""

    opened: date | None = None
    lines: tuple[Line, ...] = ()
    totals: dict[int, Decimal] = field(default_factory=dict)


class Bookkeeping(Decider):
    """Keeps a book."""

    snapshot_every = 2

    def initial(self) -> Book:
        return Book()

    def evolve(self, state: Book, event: Opened | Deposited | Withdrawn) -> Book:
        """Write a line."""
        if isinstance(event, Opened):
            return replace(state, opened=date(2026, 1, 24))
        line = Line(at=datetime(2026, 1, 24, 1, 2, 3, 4, tzinfo=UTC), amount=Decimal(event.amount) / 4)
        totals = state.totals | {len(state.lines): line.amount}
        return replace(state, lines=(*state.lines, line), totals=totals)

    def deposit(self, state: Book, amount: int) -> Deposited:
        """Pay in."""
        assert type(state) is Book
        assert all(type(line.amount) is Decimal for line in state.lines)
        return Deposited(amount=amount)


class Lying(SnapshottedAccount):
    """The state is not of the type that `initial` says."""

    def evolve(self, state: Any, event: AccountEvent) -> Any:
        """Become a text."""
        return f"{state}x"

    def deposit(self, state: Any, amount: int) -> Deposited:
        """Pay in."""
        return Deposited(amount=amount)


def test_a_state_may_be_a_dataclass_of_models(store: Store) -> None:
    """TAG-06: dataclasses, models, dates and decimals come back equal from a snapshot."""
    books = Decisions(store, Bookkeeping)
    for amount in range(1, 8):
        books.run("book/1", Bookkeeping.deposit, amount)
    loaded = books.load("book/1")
    assert loaded.folded < 7

    class Whole(Bookkeeping):
        snapshot_every = None

    assert loaded.state == Decisions(store, Whole).load("book/1").state
    assert loaded.state.totals[6] == Decimal("1.75")


def _count(number: int, event: Deposited) -> int:
    return number + 1


def _deposit(number: int, amount: int) -> Deposited:
    """Pay in."""
    return Deposited(amount=amount)


def test_functions_have_snapshots_too(store: Store) -> None:
    """TAG-06: the first state may come from a class such as `int`."""
    counts = Decisions(store, FunctionDecider(name="count", initial=int, evolve=_count, snapshot_every=2))
    for amount in range(5):
        counts.run("count/1", _deposit, amount)
    assert (counts.load("count/1").state, counts.load("count/1").folded) == (5, 1)


def test_a_state_of_another_type_is_said(store: Store) -> None:
    """TAG-06: a state that its snapshot could not give back is refused before anything is written."""
    head = store.head()
    with pytest.raises(errors.DeciderInvalid, match=r"'Lying': its state is a str, not what initial\(\) returns"):
        for _ in range(5):
            Decisions(store, Lying).run("account/7", Lying.deposit, 1)
    assert store.head() == head + 1


def test_an_engine_without_snapshots_says_so(tmp_path: Path) -> None:
    """TAG-06: what a decider asks for and the engine lacks is refused by name."""
    with tallystick.open(f"ndjson:{tmp_path}/log", catalog=catalog) as store:
        with pytest.raises(errors.UnsupportedCapability, match="maintenance"):
            Decisions(store, SnapshottedAccount)
        accounts = Decisions(store, Account)
        assert accounts.run("run/1", Account.deposit, 1).seq == 1
        with pytest.raises(errors.UnsupportedCapability, match="commands"):
            accounts.request(idempotency_key="r-1").run("run/1", Account.deposit, 1)
