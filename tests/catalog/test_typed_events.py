"""Models in and out: an instance is appended as an event of its type, and a typed reader gives instances back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

import tallystick
from tallystick import NO_STREAM, Catalog, Erased, NewEvent, Store, TypedReader, aio, errors, select, state
from tallystick.commands import CommandKey, Commands, Decision
from tallystick.event import canonical

catalog = Catalog()


class Kind(Enum):
    """A kind of account."""

    PRIVATE = "private"
    SHARED = "shared"


class Address(BaseModel):
    """Part of a payload."""

    city: str
    since: date


@catalog.event("account.opened")
class Opened(BaseModel):
    """An account was opened."""

    owner: str


@catalog.event("account.deposited", version=1)
class DepositedBefore(BaseModel):
    """The first version."""

    amount: int


@catalog.event("account.deposited", version=2)
class Deposited(BaseModel):
    """The current version."""

    model_config = ConfigDict(frozen=True)
    amount: int
    currency: str


@catalog.upcaster("account.deposited", from_version=1)
def _with_currency(data: dict[str, Any]) -> dict[str, Any]:
    if data["amount"] == 666:
        raise RuntimeError("no")
    return data | {"currency": "EUR"}


@catalog.event("account.described")
class Described(BaseModel):
    """Everything that is not JSON."""

    id: UUID
    at: datetime
    day: date
    lasts: timedelta
    balance: Decimal
    kind: Kind
    home: Address
    path: Path
    key: bytes
    labels: set[str]
    pair: tuple[int, str]
    by_day: dict[date, Decimal]


catalog.rename("account.created", to="account.opened")

Account = Opened | Deposited

DESCRIBED = Described(
    id=UUID(int=7),
    at=datetime(2026, 1, 24, 10, 30, 0, 123456, tzinfo=UTC),
    day=date(2026, 1, 24),
    lasts=timedelta(days=1, microseconds=3),
    balance=Decimal("12.50"),
    kind=Kind.SHARED,
    home=Address(city="Berne", since=date(2020, 2, 29)),
    path=Path("a/b"),
    key=b"abc",
    labels={"x"},
    pair=(1, "b"),
    by_day={date(2026, 1, 24): Decimal("0.10")},
)


@pytest.fixture
def store() -> Iterator[Store]:
    """A store with the catalog above."""
    with tallystick.open("memory:", catalog=catalog) as store:
        yield store


def written(store: Store) -> list[tuple[str, int, Any]]:
    """What is stored: types, versions and data as they are without models."""
    return [(event.type, event.version, canonical.decode(event.payload or b"{}")) for event in store.events()]


# --- in --------------------------------------------------------------------------------------------------------------


def test_a_model_is_appended_as_an_event_of_its_type(store: Store) -> None:
    """TAG-06: alone, in a list with events, in several parts, and in the decision of a command."""
    done = store.append("account/1", Opened(owner="Ada"), expected=NO_STREAM)
    store.append("account/1", [Deposited(amount=1, currency="CHF"), NewEvent("noted", {})], expected=done.seq)
    store.append_all([("account/2", [Opened(owner="Bob")], 0), ("account/3", (DepositedBefore(amount=2),), 0)])
    key = CommandKey("", "ada", "open", "k")
    decision = Decision([("account/4", [Opened(owner="Eve")], 0)], None)
    Commands(store).run(key=key, request={}, handler=lambda context: decision)
    assert written(store) == [
        ("account.opened", 1, {"owner": "Ada"}),
        ("account.deposited", 2, {"amount": 1, "currency": "CHF"}),
        ("noted", 1, {}),
        ("account.opened", 1, {"owner": "Bob"}),
        ("account.deposited", 1, {"amount": 2}),
        ("account.opened", 1, {"owner": "Eve"}),
    ]
    assert store.read_stream("account/4")[0].metadata == {"actor_id": "ada", "idempotency_key": "k"}


def test_models_are_appended_and_read_in_an_event_loop(tmp_path: Path) -> None:
    """TAG-06: the same in `aio`: appends, iterators, single events and a follower."""

    async def run() -> None:
        async with await aio.open(f"files:{tmp_path}/log", catalog=catalog) as store:
            await store.append("account/1", Opened(owner="Ada"))
            await store.append_batch("account/1", [Deposited(amount=1, currency="CHF")])
            await store.append_all([("account/1", [NewEvent("noted", {})], 2)])
            typed = aio.TypedReader[Account](store)
            found = [event.data async for event in typed.events()]
            assert found == [Opened(owner="Ada"), Deposited(amount=1, currency="CHF")]
            types = [event.type async for event in typed.stream("account/1", backward=True)]
            assert types == ["noted", "account.deposited", "account.opened"]
            first, last = await typed.at("account/1", 1), await typed.last("account/1")
            assert first is not None
            assert last is not None
            assert await typed.find(first.id) == first
            assert await typed.at("account/1", 9) is None
            with pytest.raises(errors.TypeNotTaken):
                last.data  # noqa: B018
            async for event in typed.follow(after=1):
                assert event.data == Deposited(amount=1, currency="CHF")
                break

    asyncio.run(run())


def test_an_appended_part_is_not_changed(store: Store) -> None:
    """What the caller handed in stays as it is, so it can be appended again."""
    given = [Opened(owner="Ada")]
    store.append("account/1", given)
    store.append("account/2", given)
    assert given == [Opened(owner="Ada")]
    assert written(store) == [("account.opened", 1, {"owner": "Ada"})] * 2


def test_what_is_not_json_is_encoded_by_the_model(store: Store) -> None:
    """TAG-06: datetimes, UUIDs, decimals, enums, bytes, sets and nested models come back equal."""
    store.append("account/1", DESCRIBED)
    data = store.read_stream("account/1")[0].data
    assert (data["at"], data["balance"], data["kind"]) == ("2026-01-24T10:30:00.123456Z", "12.50", "shared")
    (event,) = TypedReader[Described](store).events()
    assert event.data == DESCRIBED
    assert type(event.data.balance) is Decimal


class Stranger(BaseModel):
    """A model that is in no catalog."""

    a: int = 1


class Special(Opened):
    """A model derived from a registered one is another model."""


@pytest.mark.parametrize("given", [Stranger(), Special(owner="x"), [Opened(owner="x"), Stranger()]])
def test_a_model_without_a_type_is_refused(store: Store, given: Any) -> None:
    """TAG-06: an instance that the catalog has no type for is refused by the name of its class."""
    with pytest.raises(errors.InvalidValue, match=r"(Stranger|Special), which is not in the catalog of the store"):
        store.append("account/1", given)
    assert store.head() == 0


def test_a_model_of_two_types_is_refused() -> None:
    """TAG-06: a guess would be wrong for one of them; a NewEvent names the type."""
    two = Catalog()
    two.register("a", Opened)
    two.register("b", Opened)
    with tallystick.open("memory:", catalog=two) as store:
        with pytest.raises(errors.InvalidValue, match="Opened, which is registered as a, b"):
            store.append("account/1", Opened(owner="x"))
        store.append("account/1", NewEvent("a", Opened(owner="x")))
        assert written(store) == [("a", 1, {"owner": "x"})]


def test_a_bad_model_fails_alone(store: Store) -> None:
    """In a group of requests, only the one with the unknown model is refused."""
    from tallystick.store.prepare import Part, Request

    good, bad = (Request([Part("account/1", [model])]) for model in (Opened(owner="x"), Stranger()))
    outcomes = store.submit([good, bad, good])
    assert [isinstance(outcome, errors.InvalidValue) for outcome in outcomes] == [False, True, False]
    assert store.head() == 2


@pytest.mark.parametrize("given", ["x", 7, None, [7], ["x", Opened(owner="x")], [], {}, object()])
def test_anything_else_is_refused_as_before(store: Store, given: Any) -> None:
    """What is neither an event nor a model is named, and nothing is written."""
    with pytest.raises(errors.InvalidValue, match="events is"):
        store.append("account/1", given)
    assert store.head() == 0


@pytest.mark.parametrize("given", [NewEvent("a", {}), Opened(owner="x"), None, 7])
def test_a_part_has_a_list(store: Store, given: Any) -> None:
    """A part with one event in place of a list is refused by name too."""
    with pytest.raises(errors.InvalidValue, match="a list of at least one NewEvent"):
        store.append_all([("account/1", given, 0)])


# --- out -------------------------------------------------------------------------------------------------------------


def test_data_are_instances_and_match_works(store: Store) -> None:
    """TAG-06: old versions go through their upcasters; the envelope is as stored."""
    store.append("account/1", [Opened(owner="Ada"), DepositedBefore(amount=2), Deposited(amount=3, currency="CHF")])
    balance, owner = 0, ""
    for event in TypedReader[Account](store).stream("account/1"):
        match event.data:
            case Opened(owner=name):
                owner = name
            case Deposited(amount=amount):
                balance += amount
    assert (owner, balance) == ("Ada", 5)
    old = TypedReader[Account](store).at("account/1", 2)
    assert old is not None
    assert old.data == Deposited(amount=2, currency="EUR")
    assert (old.version, old.payload) == (1, b'{"amount":2}')
    assert old.row == store.read_stream("account/1")[1].row


def test_an_old_name_reads_as_the_new_one(store: Store) -> None:
    """TAG-06: a renamed type is selected by its new name, and gives the model of the new name."""
    with tallystick.open("memory:") as before:
        before.append("account/1", NewEvent("account.created", {"owner": "Ada"}))
        stored = before.read_stream("account/1")[0]
    store.append("account/1", NewEvent("account.created", {"owner": "Ada"}))
    store.append("account/1", Opened(owner="Bob"))
    store.append("account/1", Deposited(amount=3, currency="CHF"))
    typed = TypedReader[Opened](store)
    assert [event.data for event in typed.events()] == [Opened(owner="Ada"), Opened(owner="Bob")]
    assert [event.data.owner for event in typed.events(selection=select(type="account.opened"))] == ["Ada", "Bob"]
    assert [event.type for event in typed.events()] == ["account.created", "account.opened"]
    assert store.read_stream("account/1")[0].checksum == stored.checksum
    with pytest.raises(errors.SchemaViolation):
        store.append("account/1", NewEvent("account.created", {"owner": 7}))


def test_a_renamed_type_is_upcast() -> None:
    """TAG-06: an old name has every version and upcaster of the new one, also those registered later."""
    renamed = Catalog()
    renamed.register("new", DepositedBefore, version=1)
    renamed.rename("old", to="new")
    renamed.register("new", Deposited, version=2)
    renamed.upcaster("new", from_version=1)(_with_currency)
    whole = Catalog()
    whole.include(renamed)
    for known in (renamed, whole):
        with tallystick.open("memory:", catalog=known) as store:
            store.append("account/1", NewEvent("old", {"amount": 5}, version=1))
            assert store.read_stream("account/1")[0].data == {"amount": 5, "currency": "EUR"}
            (event,) = TypedReader[Deposited](store).events()
            assert event.data == Deposited(amount=5, currency="EUR")


@pytest.mark.parametrize(("old", "new"), [("a", "b"), ("b", "a"), ("c", "nowhere"), ("d", "old"), ("bad name", "a")])
def test_a_rename_that_means_nothing_is_refused(old: str, new: str) -> None:
    """TAG-06: both types registered, no such type, a chain, a bad name."""
    found = Catalog()
    found.register("a", Opened)
    found.register("b", DepositedBefore)
    found.rename("old", to="a")
    found.rename("old", to="a")
    with pytest.raises(errors.InvalidInput):
        found.rename(old, to=new)
    with pytest.raises(errors.InvalidValue, match="its new name"):
        found.register("old", Deposited, version=2)
    with pytest.raises(errors.InvalidValue, match=r"registered already|renamed once"):
        found.rename("a", to="a")


def test_a_selection_of_other_types_is_refused(store: Store) -> None:
    """TAG-06: a reader of some types never gives nothing because the selection has others."""
    with pytest.raises(errors.InvalidValue, match=r"account\.described"):
        TypedReader[Account](store).events(selection=select(type="account.described"))


def test_any_reads_what_the_catalog_knows(store: Store) -> None:
    """TAG-06: instances where there is a model, plain data elsewhere."""
    store.append("account/1", [Opened(owner="Ada"), NewEvent("noted", {"a": 1})])
    assert [event.data for event in TypedReader[Any](store).events()] == [Opened(owner="Ada"), {"a": 1}]


# --- what cannot be an instance --------------------------------------------------------------------------------------


def test_an_erased_payload_is_said(store: Store) -> None:
    """TAG-06: reading it raises, unless the reader takes `Erased`; other events are read."""
    store.append("account/1", [Opened(owner="Ada"), Deposited(amount=1, currency="EUR")])
    state.erase(store, "account/1", 1, reason="request")
    first, second = TypedReader[Account](store).stream("account/1")
    assert first.erased
    assert second.data.amount == 1 if isinstance(second.data, Deposited) else False
    with pytest.raises(errors.PayloadErased, match=r"seq 1 of 'account/1' \(account\.opened\) was erased"):
        first.data  # noqa: B018
    taken = TypedReader[Account | Erased](store).at("account/1", 1)
    assert taken is not None
    assert taken.data == Erased("account.opened")


def test_a_payload_that_does_not_match_is_said(tmp_path: Path) -> None:
    """TAG-06: events that were appended without the model: wrong form, a newer version, a failing upcaster."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as before:
        before.append("account/1", NewEvent("account.opened", {"owner": 7}))
        before.append("account/1", NewEvent("account.opened", {"owner": "x"}, version=2))
        before.append("account/1", NewEvent("account.deposited", {"amount": 666}))
        before.append("account/1", NewEvent("account.deposited", {"amount": "1"}))
        before.append("account/1", NewEvent("account.opened", {"owner": "Ada"}))
    with tallystick.open(url, catalog=catalog) as store:
        found = list(TypedReader[Account](store).events())
        kinds = [errors.PayloadMisfit, errors.UnknownType, errors.SchemaIncompatible, errors.PayloadMisfit]
        for event, kind in zip(found, kinds, strict=False):
            with pytest.raises(kind) as said:
                event.data  # noqa: B018
            assert "account.opened" in str(said.value) or "account.deposited" in str(said.value)
        assert found[4].data == Opened(owner="Ada")
        with pytest.raises(errors.PayloadMisfit, match=r"seq 1 of 'account/1' does not match .*/owner: .*string"):
            found[0].data  # noqa: B018


@pytest.mark.parametrize("union", [int, Opened | int, Stranger, "Opened", Opened | None, list[Opened]])
def test_a_union_of_something_else_is_refused(store: Store, union: Any) -> None:
    """TAG-06: the types in brackets are models of the catalog."""
    with pytest.raises(errors.InvalidValue):
        TypedReader[union](store)


def test_an_old_version_cannot_be_asked_for(store: Store) -> None:
    """TAG-06: events are read in the current version, so its model is the one to name."""
    with pytest.raises(errors.InvalidValue, match="the model of version 2"):
        TypedReader[DepositedBefore](store)


def test_a_reader_without_types_is_refused(store: Store) -> None:
    """TAG-06: the brackets are what type checkers know, so they are required."""
    with pytest.raises(errors.InvalidValue, match=r"TypedReader\[Opened \| Deposited\]\(store\)"):
        TypedReader(store)
    with pytest.raises(errors.InvalidValue, match="an open store"):
        TypedReader[Account]("memory:")  # type: ignore[arg-type]
