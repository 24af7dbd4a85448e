"""Running decisions: metadata, repeats, what is refused, and the same in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import tallystick
from tallystick import Catalog, Erased, NewEvent, Store, aio, errors, state
from tallystick.commands import forget_old
from tallystick.decide import Decider, Decisions, FunctionDecider
from tallystick.event import ids
from tallystick.store.backoff import retries
from tallystick.testing.bank import Account, AccountEvent, Deposited, Opened, Overdrawn, Withdrawn, catalog

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
        (Careless.misnamed, "account.opened"),
    ],
)
@pytest.mark.parametrize("key", [None, "r-1"])
def test_a_decision_that_returns_no_events_is_refused(store: Store, decision: Any, said: str, key: str | None) -> None:
    """TAG-06: nothing, foreign types, payloads without a model, generators: each by name, and nothing is written."""
    with pytest.raises((errors.DecisionInvalid, errors.SchemaViolation), match=said):
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


# --- in an event loop ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "files", "sqlite"])
def test_the_same_in_an_event_loop(engine: str, tmp_path: Path) -> None:
    """TAG-06: fifty tasks withdraw at once; the rule holds, keys take effect once, errors are the same."""
    url = "memory:" if engine == "memory" else f"{engine}:{tmp_path}/log"

    async def run() -> None:
        async with await aio.open(url, catalog=catalog) as store:
            accounts = aio.Decisions(store, Account, conflict_tries=200)
            await accounts.run(STREAM, Account.open, owner="Ada", first=30)
            tasks = [accounts.run(STREAM, Account.withdraw, amount=1) for _ in range(50)]
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert sum(isinstance(outcome, Overdrawn) for outcome in outcomes) == 20
            loaded = await accounts.load(STREAM)
            assert (loaded.state, loaded.seq) == (0, 32)
            request = accounts.request(idempotency_key="r-1", actor_id="ada")
            twice = await asyncio.gather(*(request.run(STREAM, Account.deposit, 5) for _ in range(5)))
            assert sorted(done.repeated for done in twice) == [False] + [True] * 4
            assert [(done.seq, done.events) for done in twice] == [(33, (Deposited(amount=5),))] * 5
            with pytest.raises(errors.IdempotencyKeyReuse):
                await request.run(STREAM, Account.deposit, 6)
            with pytest.raises(errors.DecisionInvalid):
                await accounts.run(STREAM, Account.deposit, amont=5)  # type: ignore[call-overload]
            assert (await accounts.run("account/1", Account.close)).events == ()

    asyncio.run(run())


def test_conflicts_in_an_event_loop_are_bounded() -> None:
    """TAG-06: a decision that always conflicts is given up there too."""

    async def run() -> None:
        async with await aio.open("memory:", catalog=catalog) as store:
            calls: list[int] = []

            class Hopeless(Account):
                def deposit(self, state: int, amount: int) -> Deposited:
                    """Somebody is always faster."""
                    calls.append(state)
                    store.store.append(STREAM, Deposited(amount=1))
                    return Deposited(amount=amount)

            with pytest.raises(errors.Conflict):
                await aio.Decisions(store, Hopeless, conflict_tries=4).run(STREAM, Hopeless.deposit, 1)
            assert calls == [0, 1, 2, 3]

    asyncio.run(run())
