"""Summaries: for any history and any runner, the rows are those of a computation in plain Python."""

from __future__ import annotations

import pickle
import tempfile
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

import tallystick
from tallystick import NewEvent, errors
from tallystick.event.catalog import Catalog
from tallystick.projections import Live, Summary, ViewReader, rebuild, run_inline
from tallystick.projections.model import check
from tallystick.projections.summary import count, latest, max_text, min_, payload, set_, sum_, top
from tallystick.testing.projections import check_fold
from tests.projections.summaries import SOLD, ByStream, Everything, expected, histories, made, play, rows_of

from .conftest import url_of
from .test_equivalence import SETTINGS


class Inline(ByStream):
    """The same, run inline."""


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_every_runner_gives_the_rows_of_a_plain_computation(engine: str) -> None:
    """CP-08: inline, live in steps of any size, and rebuilt give the same bytes, also after erasures."""

    @SETTINGS
    @hypothesis.given(histories)
    def check(history: list[tuple[str, Any, Any]]) -> None:
        with tempfile.TemporaryDirectory() as place, url_of(engine, place) as url, tallystick.open(url) as store:
            run_inline(store, Inline())
            play(store, history)
            store.append("order/9", NewEvent(SOLD, {"customer": "last"}))
            events = list(store.events())
            for projection in (Everything(), ByStream()):
                Live(store, projection).catch_up()
                assert rows_of(store, projection.name) == expected(events, projection.key)
                fingerprint = ViewReader(store, projection.name).fingerprint().digest
                rebuild(store, projection, batch_events=3)
                assert ViewReader(store, projection.name).fingerprint().digest == fingerprint
            assert rows_of(store, "Inline") == rows_of(store, "ByStream")

    check()


@SETTINGS
@hypothesis.given(st.lists(made, max_size=8))
def test_a_fold_takes_one_event_after_the_other_too(events: list[NewEvent]) -> None:
    """Runners without special code for summaries give the same rows, also with a JSON round trip after every event."""
    with tallystick.open("memory:") as store:
        if events:
            store.append("order/1", events)
        check_fold(ByStream(), list(store.events()))


class Sold(Summary):
    """A small one."""

    types = (SOLD,)
    key = payload.customer
    total = sum_(payload.cents)
    money = sum_(payload.price, places=2)
    name_ = max_text(payload.name)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"cents": 1.0}, "total: payload.cents is a decimal, not a whole number"),
        ({"cents": "1"}, "total: payload.cents is a text, not a whole number"),
        ({"cents": True}, "total: payload.cents is a truth value"),
        ({"cents": [1]}, "total: payload.cents is a list"),
        ({"price": 0.001}, "money: payload.price is a decimal, not a decimal with up to 2 places"),
        ({"price": 1e13}, "money"),
        ({"price": 10**13}, "money"),
        ({"price": 1e300}, "money"),
        ({"price": "1"}, "money"),
        ({"price": False}, "money"),
        ({"name": 5}, "name_: payload.name is a number, not a text"),
    ],
)
def test_a_value_that_cannot_be_exact_is_refused(body: dict[str, Any], said: str) -> None:
    """The event and the measure are named, and no row is written."""
    with tallystick.open("memory:") as store:
        store.append("order/1", NewEvent(SOLD, {"customer": "a", "cents": 1}))
        store.append("order/1", NewEvent(SOLD, {"customer": "b", **body}))
        with pytest.raises(errors.ProjectionFailed, match=r"seq 2 of 'order/1'") as refused:
            Live(store, Sold()).catch_up()
        assert said in str(refused.value)
        assert rows_of(store, "Sold") == {}


def test_a_key_that_is_no_text_is_refused() -> None:
    """As with every projection."""
    with tallystick.open("memory:") as store:
        store.append("order/1", NewEvent(SOLD, {"customer": 5}))
        with pytest.raises(errors.ProjectionKeyInvalid):
            Live(store, Sold()).catch_up()


def test_upcast_events_count_as_what_they_became() -> None:
    """Upcast payloads are measured."""
    catalog = Catalog()

    @catalog.upcaster(SOLD, from_version=1)
    def split(data: dict[str, Any]) -> dict[str, Any]:
        return {"customer": data["who"], "cents": data["euros"] * 100}

    with tallystick.open("memory:") as store:
        store.append("order/1", NewEvent(SOLD, {"who": "a", "euros": 2}, version=1))
        store.append("order/1", NewEvent(SOLD, {"customer": "a", "cents": 5}, version=2))
        store.catalog = catalog
        Live(store, Sold()).catch_up()
        found = ViewReader(store, "Sold").get("a")
        assert found is not None
        assert found["total"] == 205


def test_other_expressions_are_another_definition() -> None:
    """Rows of other expressions are refused, although no version was raised."""
    one = type("Books", (Summary,), {"types": (SOLD,), "total": sum_(payload.cents)})
    two = type("Books", (Summary,), {"types": (SOLD,), "total": sum_(payload.price, places=2)})
    with tallystick.open("memory:") as store:
        Live(store, one()).catch_up()
        store.append("order/1", NewEvent(SOLD, {"cents": 1}))
        with pytest.raises(errors.ProjectionChanged, match="version"):
            Live(store, two()).catch_up()


def test_a_field_and_one_inside_it_can_both_be_measured() -> None:
    """A path that continues another one."""
    books = type("Books", (Summary,), {"types": (SOLD,), "whole": latest(payload.to), "part": set_(payload.to.city)})
    with tallystick.open("memory:") as store:
        store.append("order/1", NewEvent(SOLD, {"to": {"city": "Ä"}}))
        Live(store, books()).catch_up()
        assert ViewReader(store, "Books").get("order/1") == {"whole": {"city": "Ä"}, "part": ["Ä"]}


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"n": count(of="another.type")},
        {"n": count(), "order": "lamport"},
        {"version": count()},
        {"apply": count()},
    ],
)
def test_what_cannot_be_run_is_refused_where_it_is_written(written: dict[str, Any]) -> None:
    """Refused when the class is created, or at the latest when it is loaded."""
    with pytest.raises(errors.ProjectionInvalid):
        check(type("Books", (Summary,), {"types": (SOLD,), **written})())


@pytest.mark.parametrize(
    "write",
    [
        lambda: payload["a b"],
        lambda: sum_("cents"),
        lambda: sum_(None),
        lambda: sum_(payload.a, places=5),
        lambda: sum_(payload.a, places=-1),
        lambda: min_(payload.a, per=61),
        lambda: top(0, payload.a),
        lambda: top(1001, payload.a),
        lambda: top(True, payload.a),
    ],
)
def test_what_no_measure_is_is_refused(write: Any) -> None:
    """Names with a special meaning in databases, places beyond doubles, and odd windows."""
    with pytest.raises(errors.InvalidValue):
        write()


def test_the_bounds_themselves_are_taken() -> None:
    """One and a thousand numbers in `top()`, no and four places in a sum, windows of a minute, an hour and a day."""
    assert [top(size, payload.a).size for size in (1, 1000)] == [1, 1000]
    assert [sum_(payload.a, places=places).places for places in (0, 4)] == [0, 4]
    assert [sum_(payload.a, per=per).per for per in (60, 3600, 86_400)] == [60, 3600, 86_400]


def test_a_summary_travels() -> None:
    """It can be pickled, used or not: workers compile it again."""
    summary = Everything()
    assert summary.accounts_from([]) == {}
    assert pickle.loads(pickle.dumps(summary)).accounts_from([]) == {}


def test_a_field_is_shown_as_its_path() -> None:
    """Refusals quote fields as the author wrote them."""
    assert repr(payload.customer["id"]) == "payload.customer.id"
