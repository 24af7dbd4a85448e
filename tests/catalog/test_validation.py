"""Payloads are held against the model of their type before they are written."""

from __future__ import annotations

import json
import traceback
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator

import tallystick
from tallystick import Catalog, NewEvent, errors
from tallystick.event import canonical

catalog = Catalog()


@catalog.event("order.placed", version=2)
class OrderPlaced(BaseModel):
    """An order with a default, an alias and a nested list."""

    model_config = ConfigDict(extra="forbid")

    order_id: str = Field(min_length=1)
    amount: int
    lines: list[dict[str, int]] = Field(default_factory=list)
    due: date | None = None
    note: str = Field(default="", alias="remark")


@catalog.event("order.placed", version=1)
class OrderPlacedBefore(BaseModel):
    """The first version."""

    order_id: str


@catalog.event("login.tried")
class LoginTried(BaseModel):
    """A model whose validators misbehave."""

    word: str
    size: int = 0

    @field_validator("word")
    @classmethod
    def _quote(cls, value: str) -> str:
        raise ValueError(f"I do not like {value}")

    @field_validator("size")
    @classmethod
    def _crash(cls, value: int) -> int:
        raise KeyError(value)


def validate(payload: dict[str, Any], *, type_: str = "order.placed", version: int = 2) -> None:
    """Hold a payload against the catalog above."""
    catalog.validate(type_, version, canonical.encode(payload))


def test_a_payload_that_fits_is_appended_verbatim() -> None:
    """LH-02: validation judges a payload and does not change it: no default is written into it."""
    with tallystick.open("memory:", catalog=catalog) as store:
        store.append("order/1", NewEvent("order.placed", {"order_id": "a", "amount": 3}))
        event = store.read_stream("order/1")[0]
        assert (event.version, event.payload) == (2, b'{"amount":3,"order_id":"a"}')


@pytest.mark.parametrize(
    ("payload", "pointer"),
    [
        ({"amount": 3}, "/order_id"),
        ({"order_id": "", "amount": 3}, "/order_id"),
        ({"order_id": "a", "amount": "3"}, "/amount"),
        ({"order_id": "a", "amount": 3.0}, "/amount"),
        ({"order_id": "a", "amount": True}, "/amount"),
        ({"order_id": "a", "amount": 3, "lines": [{"x": 1}, {"y/z": "1"}]}, "/lines/1/y~1z"),
        ({"order_id": "a", "amount": 3, "due": "soon"}, "/due"),
        ({"order_id": "a", "amount": 3, "extra": 1}, "/extra"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_with_its_place(payload: dict[str, Any], pointer: str) -> None:
    """LH-02: strict validation names the field and the reason; nothing is coerced."""
    with pytest.raises(errors.SchemaViolation) as caught:
        validate(payload)
    assert caught.value.values["pointer"] == pointer
    assert f"does not match its model: {pointer}: " in str(caught.value)


def test_a_refused_payload_is_not_written() -> None:
    """LH-02: validation happens at append."""
    with tallystick.open("memory:", catalog=catalog) as store:
        with pytest.raises(errors.SchemaViolation):
            store.append("order/1", NewEvent("order.placed", {"order_id": "a", "amount": "3"}))
        assert store.head() == 0


def test_every_violation_is_counted() -> None:
    """LH-02: up to five places are named, the rest is counted."""
    with pytest.raises(errors.SchemaViolation, match="and 3 more"):
        validate({"order_id": "a", "amount": 3, "lines": [{"x": "1"}] * 8})


def test_an_older_version_is_held_against_its_own_model() -> None:
    """LH-01: the version in the event picks the model."""
    validate({"order_id": "a"}, version=1)
    with pytest.raises(errors.SchemaViolation):
        validate({"order_id": "a"}, version=2)


def test_an_unknown_version_of_a_known_type_is_refused() -> None:
    """LH-01: a version that the catalog does not have cannot be judged, so it does not pass."""
    with pytest.raises(errors.UnknownType):
        validate({"order_id": "a"}, version=3)


def test_an_uncatalogued_type_passes_unless_the_catalog_is_closed() -> None:
    """LH-02: an open catalog judges what it knows; a closed one refuses the rest, but for the store's own facts."""
    validate({"any": 1}, type_="other.thing")
    closed = Catalog(closed=True)
    with pytest.raises(errors.UnknownType):
        closed.validate("other.thing", 1, b"{}")
    closed.validate("tally.setting.changed", 1, b"{}")


def test_a_store_with_a_closed_catalog_still_records_its_settings() -> None:
    """CP-11: a closed set of types does not stop the store from recording a change of its guard."""
    with tallystick.open("memory:", catalog=Catalog(closed=True), secrets="warn") as store:
        assert store.stream_head("tally.store/settings") is not None
        with pytest.raises(errors.UnknownType):
            store.append("order/1", NewEvent("order.placed", {}))


def test_an_empty_catalog_says_so() -> None:
    """A catalog in which nothing is validated can be skipped; a closed one cannot."""
    assert Catalog().is_empty
    assert not Catalog(closed=True).is_empty
    assert not catalog.is_empty


def test_a_violation_does_not_quote_the_value() -> None:
    """LH-02: a validator that quotes its input does not carry it into the error, its JSON or its traceback."""
    word = "hunter" + "2hunter2"
    with pytest.raises(errors.SchemaViolation) as caught:
        validate({"word": word}, type_="login.tried", version=1)
    problem = caught.value
    told = [str(problem), repr(problem), json.dumps(problem.as_json()), *traceback.format_exception(problem)]
    assert word not in "\n".join(told)
    assert problem.__context__ is None
    assert "/word: value_error" in str(problem)


def test_a_secret_in_the_place_of_a_key_is_not_quoted() -> None:
    """LH-02: the location of a violation leaves out a key that is a secret."""
    key = "npm" + "_" + "a1" * 18
    with pytest.raises(errors.SchemaViolation) as caught:
        validate({"order_id": "a", "amount": 1, "lines": [{key: "x"}]})
    assert key not in str(caught.value)


def test_a_validator_that_crashes_is_a_violation() -> None:
    """LH-02: a bug in a model is a typed refusal with the place of the bug, not a crash of the writer."""
    with pytest.raises(errors.SchemaViolation, match=r"KeyError at LoginTried\._crash line \d+") as caught:
        Catalog.validate(_only_size(), "sized", 1, b'{"size":7}')
    assert "7" not in caught.value.message.split(" line ")[0]


def _only_size() -> Catalog:
    class Sized(LoginTried):
        word: str = "fine"

    found = Catalog()
    found.register("sized", Sized)
    return found


# --- models as payloads ----------------------------------------------------------------------------------------------


def test_a_model_can_be_appended() -> None:
    """LH-02: an instance of a model is its JSON, by the names that the model validates."""
    with tallystick.open("memory:", catalog=catalog) as store:
        order = OrderPlaced(order_id="a", amount=1, due=date(2025, 1, 24), remark="x")
        store.append("order/1", NewEvent("order.placed", order))
        data = store.read_stream("order/1")[0].data
        assert data == {"order_id": "a", "amount": 1, "lines": [], "due": "2025-01-24", "remark": "x"}


class Anything(BaseModel):
    """A model that can hold what has no JSON form."""

    value: Any = None


SHAPELESS = [[1], 7, object(), Anything, Anything(value=object()), Anything(value=b"\xff")]


@pytest.mark.parametrize("payload", [*SHAPELESS, Anything(value={"a": float("nan")}), RootModel[list[int]]([1])])
def test_what_has_no_json_object_is_refused(payload: object) -> None:
    """LH-02: lists, numbers, classes and models that cannot be JSON objects are refused with a typed error."""
    with tallystick.open("memory:", catalog=catalog) as store, pytest.raises(errors.NotCanonical):
        store.append("order/1", NewEvent("t", payload))


def test_a_model_knows_its_version() -> None:
    """LH-01: the version of a type can be told from the model that was given."""
    assert catalog.version_of("order.placed", OrderPlacedBefore(order_id="a")) == 1
    assert catalog.version_of("order.placed", OrderPlaced(order_id="a", amount=1)) == 2
    assert catalog.version_of("order.placed", Anything()) is None
    assert catalog.version_of("other", Anything()) is None


class Wordy(BaseModel):
    """A model whose validators say much, about a field with a long name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]

    text: str

    @field_validator("text")
    @classmethod
    def refuse(cls, value: str) -> str:
        """Say why, at length."""
        raise ValueError("no " * 1000)


def test_a_refusal_is_short_whatever_the_model_says() -> None:
    """An error fits into a line of a log: neither the reason of a validator nor a key is repeated whole."""
    wordy = Catalog()
    wordy.register("t", Wordy)
    with tallystick.open("memory:", catalog=wordy) as store:
        for payload, longest in (({"text": "x"}, 500), ({"text": "x", "k" * 5000: "y"}, 1000)):
            with pytest.raises(errors.SchemaViolation) as refused:
                store.append("order/1", NewEvent("t", payload))
            assert 250 < len(refused.value.reason) < longest
            assert len(refused.value.pointer) <= 200
