"""What deciders and their decisions refuse: each by name, with nothing written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import tallystick
from tallystick import Erased, NewEvent, Store, errors, state
from tallystick.decide import Decider, Decisions, FunctionDecider
from tallystick.testing.bank import Account, AccountEvent, Deposited, Overdrawn, Withdrawn, catalog

STREAM = "account/42"


@pytest.fixture
def store() -> Iterator[Store]:
    """A store with the accounts of the test bank."""
    with tallystick.open("memory:", catalog=catalog) as store:
        yield store


def _evolve(balance: int, event: Deposited | Withdrawn) -> int:
    return balance + event.amount if isinstance(event, Deposited) else balance - event.amount


# --- what is refused -------------------------------------------------------------------------------------------------


class Foreign(BaseModel):
    """A model that no account takes."""

    a: int = 1


class Careless(Account):
    """Decisions with every mistake."""

    def nothing(self, state: int) -> Any:
        """Forget to return."""

    def foreign(self, state: int) -> Any:
        """Return an event of something else."""
        return Foreign()

    def wrapped(self, state: int) -> Any:
        """The same inside of a NewEvent."""
        return NewEvent("account.deposited", Foreign())

    def plain(self, state: int) -> Any:
        """Return a payload without a model."""
        return NewEvent("account.deposited", {"amount": 1})

    def half(self, state: int) -> Any:
        """Return one good event and one bad one."""
        return [Deposited(amount=1), "more"]

    def generator(self, state: int) -> Any:
        """Yield the events."""
        yield Deposited(amount=1)

    async def asynchronous(self, state: int) -> Any:
        """Be a coroutine."""

    def sets(self, state: int) -> Any:
        """Return events without an order."""
        return {1, 2}

    def none_inside(self, state: int) -> Any:
        """Return nothing in a list."""
        return [None]

    def misnamed(self, state: int) -> Any:
        """Return a model under the name of another type."""
        return NewEvent("account.opened", Deposited(amount=1))

    def misspelt(self, state: int) -> Any:
        """Return a model under a name that no catalog has: no later decision could load the stream."""
        return NewEvent("account.deposted", Deposited(amount=1))

    def misnumbered(self, state: int) -> Any:
        """Return a model as another version."""
        return NewEvent("account.deposited", Deposited(amount=1), version=2)


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Careless.nothing, r"Careless\.nothing: it returned nothing"),
        (Careless.foreign, r"Careless\.foreign: it returned 'a Foreign', which evolve\(\) does not take"),
        (Careless.wrapped, "it returned 'a Foreign'"),
        (Careless.plain, "it returned 'a dict'"),
        (Careless.half, "it returned 'more'"),
        (Careless.generator, "it returned 'a generator'"),
        (Careless.sets, "it returned 'a set'"),
        (Careless.none_inside, "it returned None"),
        (Careless.misnamed, "a Deposited as account.opened, but it is account.deposited version 1"),
        (Careless.misspelt, r"a Deposited as account\.deposted"),
        (Careless.misnumbered, "version 1"),
    ],
)
@pytest.mark.parametrize("key", [None, "r-1"])
def test_a_decision_that_returns_no_events_is_refused(store: Store, decision: Any, said: str, key: str | None) -> None:
    """TAG-06: nothing, foreign types, payloads without a model, generators: each by name, and nothing is written."""
    with pytest.raises(errors.DecisionInvalid, match=said):
        Decisions(store, Careless).request(idempotency_key=key).run(STREAM, decision)
    assert store.head() == 0
    if key:
        assert Decisions(store, Careless).request(idempotency_key=key).run(STREAM, Account.deposit, 1).seq == 1


@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_coroutine_is_not_a_decision(store: Store) -> None:
    """TAG-06: a decision is computed, it does not wait."""
    with pytest.raises(errors.DecisionInvalid, match="a coroutine"):
        Decisions(store, Careless).run(STREAM, Careless.asynchronous)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "decision", ["withdraw", None, 7, Foreign, len, Careless.nothing, Account.evolve, Account.initial, lambda state: []]
)
def test_an_unknown_decision_is_refused(store: Store, decision: Any) -> None:
    """TAG-06: what is not a decision of this decider is named, and nothing is written."""
    with pytest.raises(errors.DeciderInvalid, match=r"decider 'Account': .* (is not one of its|is not a) decision"):
        Decisions(store, Account).run(STREAM, decision)
    assert store.head() == 0


@pytest.mark.parametrize(
    ("args", "named"),
    [((), {}), ((), {"amont": 5}), ((1, 2), {}), ((1,), {"amount": 1}), ((), {"idempotency_key": "r"})],
)
def test_other_arguments_are_refused(store: Store, args: Any, named: Any) -> None:
    """TAG-06: a wrong keyword is named before anything is read."""
    with pytest.raises(errors.DecisionInvalid, match=r"Account\.withdraw: "):
        Decisions(store, Account).run(STREAM, Account.withdraw, *args, **named)


@pytest.mark.parametrize("stream", ["account", "", 7, None, "Account/1", "account/a b"])
def test_an_invalid_stream_is_refused(store: Store, stream: Any) -> None:
    """TAG-06: a stream has a kind and a name."""
    with pytest.raises(errors.InvalidName):
        Decisions(store, Account).run(stream, Account.deposit, 1)
    with pytest.raises(errors.ReservedName):
        Decisions(store, Account).run("tally.store/settings", Account.deposit, 1)


@pytest.mark.parametrize("key", ["", 7, b"r", "a\nb", "x" * 2600, ["r"]])
def test_a_wrong_key_is_refused(store: Store, key: Any) -> None:
    """TAG-06: a key is a printable text that fits into an index."""
    with pytest.raises((errors.InvalidValue, errors.TooLarge)):
        Decisions(store, Account).request(idempotency_key=key).run(STREAM, Account.deposit, 1)
    assert store.head() == 0


@pytest.mark.parametrize("meta", [{"actor_id": 7}, {"org": ""}, {"note": object()}, {"cause": "an id"}, {"cause": 7}])
def test_wrong_meta_is_refused(store: Store, meta: Any) -> None:
    """TAG-06: meta is checked as for any append; a cause is an event."""
    for key in (None, "r-1"):
        with pytest.raises(errors.InvalidInput):
            Decisions(store, Account).request(idempotency_key=key, **meta).run(STREAM, Account.deposit, 1)
    assert store.head() == 0


def test_what_evolve_cannot_take_is_never_appended(store: Store) -> None:
    """TAG-06: otherwise no later decision could load the stream."""

    class Fragile(Account):
        def evolve(self, state: int, event: AccountEvent) -> int:
            """Fail on large amounts."""
            if isinstance(event, Deposited) and event.amount > 9:
                raise KeyError("large")
            return super().evolve(state, event)

    with pytest.raises(errors.DecisionInvalid, match=r"evolve\(\) fails on the Deposited that it returned: KeyError"):
        Decisions(store, Fragile).run(STREAM, Fragile.open, owner="Ada", first=10)
    assert store.head() == 0
    store.append(STREAM, Deposited(amount=10))
    with pytest.raises(errors.ReducerFailed, match=r"seq 1 of 'account/42': KeyError"):
        Decisions(store, Fragile).run(STREAM, Fragile.deposit, 1)


def test_a_decision_that_raises_writes_nothing(store: Store) -> None:
    """TAG-06: the error of the domain reaches the caller as it is, and the key stays free."""
    request = Decisions(store, Account).request(idempotency_key="r-1")
    with pytest.raises(Overdrawn):
        request.run(STREAM, Account.withdraw, 5)
    store.append(STREAM, Deposited(amount=5))
    assert not request.run(STREAM, Account.withdraw, 5).repeated


def test_a_foreign_event_in_the_stream_is_said(store: Store) -> None:
    """TAG-06: a state that leaves out an event nobody declared could be wrong; a declared one is left out."""
    store.append(STREAM, [Deposited(amount=3), NewEvent("account.frozen", {})])
    with pytest.raises(
        errors.TypeNotTaken, match=r"seq 2 of 'account/42' is account\.frozen, which Account\.evolve\(\)"
    ):
        Decisions(store, Account).run(STREAM, Account.withdraw, 1)

    class Relaxed(Account):
        ignored = ("account.frozen",)

    assert Decisions(store, Relaxed).run(STREAM, Relaxed.withdraw, 1).seq == 3


def test_an_erased_event_is_said(store: Store) -> None:
    """TAG-06: evolve gets `Erased` if it takes it; otherwise the stream and the seq are named."""
    Decisions(store, Account).run(STREAM, Account.open, owner="Ada", first=5)
    state.erase(store, STREAM, 1, reason="request")
    with pytest.raises(errors.PayloadErased, match="seq 1 of 'account/42'"):
        Decisions(store, Account).run(STREAM, Account.withdraw, 1)

    class Forgetful(Account):
        def evolve(self, state: int, event: AccountEvent | Erased) -> int:
            """Take both."""
            return state if isinstance(event, Erased) else super().evolve(state, event)

    assert Decisions(store, Forgetful).run(STREAM, Forgetful.withdraw, 1).seq == 3


def test_a_reader_can_load_but_not_decide(tmp_path: Path) -> None:
    """TAG-06: on a store that was opened for reading, states are loaded, and runs are refused."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url, catalog=catalog) as store:
        store.append(STREAM, Deposited(amount=3))
    with tallystick.open(url, catalog=catalog, readonly=True) as store:
        accounts = Decisions(store, Account)
        assert accounts.load(STREAM).state == 3
        for request in (accounts, accounts.request(idempotency_key="r-1")):
            with pytest.raises(errors.ReadOnly):
                request.run(STREAM, Account.withdraw, 1)
            if request is not accounts:
                with pytest.raises(errors.ReadOnly):
                    request.run("account/43", Account.close)


# --- definitions -----------------------------------------------------------------------------------------------------


class NoInitial(Decider):
    """Has no state."""

    def evolve(self, state: int, event: Deposited) -> int:
        return state


class NoEvolve(Decider):
    """Takes no events."""

    def initial(self) -> int:
        return 0


class NoTypes(Decider):
    """Does not say which events it takes."""

    def initial(self) -> int:
        return 0

    def evolve(self, state: int, event) -> int:  # type: ignore[no-untyped-def]
        return state


class Narrow(NoTypes):
    """Takes one argument."""

    def evolve(self, state: int) -> int:  # type: ignore[override]
        return state


class Untyped(NoTypes):
    """Takes what is not a model."""

    def evolve(self, state: int, event: int) -> int:
        return state


class Unresolved(NoTypes):
    """Names a type that does not exist."""

    def evolve(self, state: int, event: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
        return state


class WithArguments(Account):
    """Cannot be made without arguments."""

    def __init__(self, bank: str) -> None:
        self.bank = bank


class BadName(Account):
    """Has a name that no snapshot can have."""

    name = "no name"


class BadVersion(Account):
    """Has a text as its version."""

    version = "2"  # type: ignore[assignment]


class BadEvery(Account):
    """Wants a snapshot every 0 events."""

    snapshot_every = 0


class BadIgnored(Account):
    """Ignores the letters of a text."""

    ignored = "account.noted"  # type: ignore[assignment]


class Stateless(Account):
    """Has a state whose type is unknown before the first event."""

    snapshot_every = 3

    def initial(self):  # type: ignore[no-untyped-def]
        return None


DEFINITIONS = [NoTypes, Narrow, Unresolved, WithArguments, BadName, BadVersion, BadEvery, BadIgnored, Stateless, int, 7]


@pytest.mark.parametrize("decider", [*DEFINITIONS, FunctionDecider(name="a", initial=0, evolve=_evolve)])  # type: ignore[arg-type]
def test_what_is_no_decider_is_refused(store: Store, decider: Any) -> None:
    """TAG-06: each lacking part is named when the runner is made."""
    with pytest.raises(errors.DeciderInvalid):
        Decisions(store, decider)


def test_a_decider_needs_its_models_in_the_catalog() -> None:
    """TAG-06: a store without them cannot read its events."""
    with (
        tallystick.open("memory:") as store,
        pytest.raises(errors.InvalidValue, match="not in the catalog of the store"),
    ):
        Decisions(store, Account)
    with (
        tallystick.open("memory:", catalog=catalog) as store,
        pytest.raises(errors.InvalidValue, match="Pydantic model"),
    ):
        Decisions(store, Untyped)


def test_a_missing_part_is_named(store: Store) -> None:
    """TAG-06: a decider without a first state, or without evolve."""
    with pytest.raises(errors.DeciderInvalid, match=r"decider 'NoInitial': it has no initial\(\)"):
        Decisions(store, NoInitial)
    with pytest.raises(errors.DeciderInvalid, match=r"it has no evolve\(\)"):
        Decisions(store, NoEvolve)
    with pytest.raises(errors.DeciderInvalid, match=r"initial\(\) failed: ZeroDivisionError"):
        Decisions(store, FunctionDecider(name="a", initial=lambda: 1 // 0, evolve=_evolve))


def test_an_evolve_that_returns_nothing_is_said(store: Store) -> None:
    """TAG-06: forgetting `return` is named, for events that are decided and for those that are loaded."""

    class Forgot(Account):
        def evolve(self, state: int, event: AccountEvent) -> int:
            """Return nothing."""
            return None  # type: ignore[return-value]

    with pytest.raises(errors.DecisionInvalid, match=r"evolve\(\) returned nothing"):
        Decisions(store, Forgot).run(STREAM, Forgot.deposit, 1)
    store.append(STREAM, Deposited(amount=1))
    with pytest.raises(errors.DeciderInvalid, match=r"evolve\(\) returned nothing"):
        Decisions(store, Forgot).load(STREAM)
