"""Running decisions: metadata, repeats, functions, old events, and retries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pydantic import BaseModel

import tallystick
from tallystick import Catalog, Erased, NewEvent, Store, errors, state
from tallystick.commands import forget_old
from tallystick.decide import Decisions, FunctionDecider
from tallystick.event import ids
from tallystick.store.backoff import retries
from tallystick.testing.bank import Account, Deposited, Opened, Withdrawn, catalog

STREAM = "account/42"


@pytest.fixture
def store() -> Iterator[Store]:
    """A store with the accounts of the test bank."""
    with tallystick.open("memory:", catalog=catalog) as store:
        yield store


# --- metadata --------------------------------------------------------------------------------------------------------


def test_meta_flows_into_every_event(store: Store) -> None:
    """TAG-06: actor, org, correlation and the key are in the meta; a cause gives causation and correlation."""
    accounts = Decisions(store, Account)
    request = accounts.request(idempotency_key="r-1", actor_id="ada", org="acme", correlation_id="c-1")
    request.run(STREAM, Account.open, owner="Ada", first=5)
    known = {"actor_id": "ada", "org": "acme", "correlation_id": "c-1"}
    assert [event.metadata for event in store.stream(STREAM)] == [known | {"idempotency_key": "r-1"}] * 2
    cause = store.read_stream(STREAM)[1]
    accounts.request(cause=cause, actor_id="bob").run(STREAM, Account.withdraw, 1)
    third = store.read_stream(STREAM)[2]
    assert third.metadata == {"actor_id": "bob", "causation_id": ids.to_text(cause.id), "correlation_id": "c-1"}
    accounts.request(cause=third).request(idempotency_key="r-2").run(STREAM, Account.withdraw, 1)
    assert store.read_stream(STREAM)[3].metadata["causation_id"] == ids.to_text(third.id)
    accounts.run(STREAM, Account.withdraw, 1)
    assert store.read_stream(STREAM)[4].metadata == {}


def test_a_cause_without_correlation_starts_one(store: Store) -> None:
    """TAG-06: the id of the first event of a conversation is its correlation."""
    first = store.append("mail/1", NewEvent("mail.received", {}))
    cause = store.at("mail/1", first.seq)
    assert cause is not None
    Decisions(store, Account).request(cause=cause).run(STREAM, Account.open, owner="Ada")
    meta = store.read_stream(STREAM)[0].metadata
    assert meta["causation_id"] == meta["correlation_id"] == ids.to_text(cause.id)


def test_a_decision_may_give_an_event_its_own_meta(store: Store) -> None:
    """TAG-06: a decision may return a NewEvent with a model as its payload."""

    class Noted(Account):
        def deposit(self, state: int, amount: int) -> NewEvent:  # type: ignore[override]
            """With meta."""
            return NewEvent("account.deposited", Deposited(amount=amount), meta={"note": "x"})

    Decisions(store, Noted).request(actor_id="ada").run(STREAM, Noted.deposit, 1)
    assert store.read_stream(STREAM)[0].metadata == {"actor_id": "ada", "note": "x"}


# --- repeats ---------------------------------------------------------------------------------------------------------


def test_a_repeat_gives_what_is_left_of_its_events(store: Store) -> None:
    """TAG-06: an erased event is given as `Erased`, never decided again."""
    request = Decisions(store, Account).request(idempotency_key="r-1")
    request.run(STREAM, Account.open, owner="Ada", first=5)
    state.erase(store, STREAM, 1, reason="request")
    again = request.run(STREAM, Account.open, owner="Ada", first=5)
    assert (again.repeated, again.seq) == (True, 2)
    assert again.events == (Erased("account.opened"), Deposited(amount=5))  # type: ignore[comparison-overlap]
    assert store.stream_head(STREAM).seq == 2  # type: ignore[union-attr]


def test_that_there_is_nothing_to_do_is_recorded_only_while_it_holds(store: Store) -> None:
    """TAG-06: if the stream grew since, the decision is made again, though it appends nothing."""
    seen: list[int] = []

    class Disturbed(Account):
        def close(self, state: int) -> list[Withdrawn]:
            """Somebody pays in, just after it was decided that there is nothing to pay out."""
            seen.append(state)
            if len(seen) == 1:
                store.append(STREAM, Deposited(amount=7))
            return super().close(state)

    done = Decisions(store, Disturbed).request(idempotency_key="r-1").run(STREAM, Disturbed.close)
    assert (seen, done.events) == ([0, 7], (Withdrawn(amount=7),))


def test_a_forgotten_key_is_new(store: Store) -> None:
    """TAG-06: records are kept as long as those of commands."""
    request = Decisions(store, Account).request(idempotency_key="r-1")
    request.run(STREAM, Account.deposit, 5)
    forget_old(store, now=store.clock() + 2 * 24 * 3600 * 10**9)
    assert not request.run(STREAM, Account.deposit, 5).repeated


class Moved(BaseModel):
    """Arguments that are not JSON."""

    at: datetime
    share: Decimal


def test_arguments_may_be_models(store: Store) -> None:
    """TAG-06: requests are compared by the JSON form of their arguments, given by name or by place."""

    class Mover(Account):
        def move(self, state: int, moved: Moved, times: int = 1) -> Deposited:
            """Pay in a share."""
            return Deposited(amount=int(moved.share) * times)

    request = Decisions(store, Mover).request(idempotency_key="r-1")
    moved = Moved(at=datetime(2026, 1, 1, tzinfo=UTC), share=Decimal(7))
    assert not request.run(STREAM, Mover.move, moved).repeated
    assert request.run(STREAM, Mover.move, times=1, moved=moved).repeated
    with pytest.raises(errors.IdempotencyKeyReuse):
        request.run(STREAM, Mover.move, moved.model_copy(update={"share": Decimal(8)}))
    with pytest.raises(errors.DecisionInvalid, match="must have a JSON form"):
        Decisions(store, Account).request(idempotency_key="r-2").run(STREAM, Account.open, owner=object())  # type: ignore[call-overload]
    assert store.head() == 1


def test_retries_are_counted_and_wait(store: Store) -> None:
    """TAG-06: a retry waits a little, with jitter, and is counted with those of the engines."""
    before = retries().get("command", 0)
    calls: list[int] = []

    class Disturbed(Account):
        def deposit(self, state: int, amount: int) -> Deposited:
            """Three others are faster."""
            calls.append(state)
            if len(calls) <= 3:
                store.append(STREAM, Deposited(amount=1))
            return Deposited(amount=amount)

    Decisions(store, Disturbed).run(STREAM, Disturbed.deposit, 1)
    assert calls == [0, 1, 2, 3]
    assert retries()["command"] - before == 3


# --- functions -------------------------------------------------------------------------------------------------------


def _zero() -> int:
    return 0


def _evolve(balance: int, event: Deposited | Withdrawn) -> int:
    return balance + event.amount if isinstance(event, Deposited) else balance - event.amount


def _pay(balance: int, amount: int) -> Deposited | Withdrawn:
    """A decision that is a plain function."""
    return Deposited(amount=amount) if amount > 0 else Withdrawn(amount=-amount)


def test_a_pair_of_functions_is_a_decider(store: Store) -> None:
    """TAG-06: `evolve(state, event)` and functions of the state, without a class."""
    balances = Decisions(store, FunctionDecider(name="balance", initial=_zero, evolve=_evolve, snapshot_every=2))
    for amount in (5, -3, 4):
        balances.run(STREAM, _pay, amount=amount)
    loaded = balances.load(STREAM)
    assert (loaded.state, loaded.seq, loaded.folded) == (6, 3, 1)


class DepositedBefore(BaseModel):
    """The first version."""

    cents: int


# --- renamed and upcast ----------------------------------------------------------------------------------------------


def test_a_decider_reads_old_names_and_versions() -> None:
    """TAG-06: renamed types and old versions reach evolve as the models of now."""
    grown = Catalog()
    grown.register("account.opened", Opened)
    grown.register("account.deposited", DepositedBefore, version=1)
    grown.register("account.deposited", Deposited, version=2)
    grown.register("account.withdrawn", Withdrawn)
    grown.rename("account.paid_in", to="account.deposited")
    grown.upcaster("account.deposited", from_version=1)(lambda data: {"amount": data["cents"]})
    with tallystick.open("memory:", catalog=grown) as store:
        store.append(STREAM, NewEvent("account.paid_in", {"cents": 7}, version=1))
        store.append(STREAM, NewEvent("account.paid_in", {"amount": 1}))
        assert Decisions(store, Account).run(STREAM, Account.withdraw, 8).seq == 3
