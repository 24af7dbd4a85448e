"""Summaries that a database computes: the rows of the live runner, byte for byte, or the same refusal."""

from __future__ import annotations

import tempfile
from typing import Any

import hypothesis
import pytest
from msgspec.structs import replace

import tallystick
from tallystick import NewEvent, errors
from tallystick.event.catalog import Catalog
from tallystick.projections import Live, Summary, ViewReader
from tallystick.projections.summary import count, payload, sum_, top
from tallystick.projections.summary.rebuild import rebuild_by_sql, why_not_in_database
from tallystick.testing import upkeep
from tallystick.testing.tamper import tamper
from tests.projections.summaries import SOLD, ByStream, Everything, expected, histories, play, rows_of

from .conftest import HAS_SERVER, url_of
from .test_equivalence import SETTINGS
from .test_summaries import Sold

SQL = ("sqlite", "postgres") if HAS_SERVER else ("sqlite",)


@pytest.fixture(params=SQL)
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine that is a database."""
    return str(request.param)


@pytest.mark.parametrize(("engine", "examples"), [(engine, 25 if engine == "sqlite" else 8) for engine in SQL])
def test_a_database_gives_the_rows_of_the_live_runner(engine: str, examples: int) -> None:
    """CP-08: the same bytes on random histories with erasures, and the live runner continues from them."""

    @hypothesis.settings(SETTINGS, max_examples=examples)
    @hypothesis.given(histories, histories)
    def check(history: list[tuple[str, Any, Any]], later: list[tuple[str, Any, Any]]) -> None:
        with tempfile.TemporaryDirectory() as place, url_of(engine, place) as url, tallystick.open(url) as store:
            play(store, history)
            for projection in (Everything(), ByStream()):
                Live(store, projection).catch_up()
                fingerprint = ViewReader(store, projection.name).fingerprint().digest
                rebuild_by_sql(store, projection)
                assert rows_of(store, projection.name) == expected(list(store.events()), projection.key)
                assert ViewReader(store, projection.name).fingerprint().digest == fingerprint
            play(store, later)
            for projection in (Everything(), ByStream()):
                Live(store, projection).catch_up()
                assert rows_of(store, projection.name) == expected(list(store.events()), projection.key)

    check()


@pytest.mark.parametrize(
    "body",
    [
        {"cents": 1.0},
        {"cents": 1e22},
        {"cents": "1"},
        {"cents": "-1"},
        {"cents": True},
        {"cents": []},
        {"price": 0.001},
        {"price": 1e-7},
        {"price": 1e13},
        {"price": 10**13},
        {"price": 1e300},
        {"price": "1"},
        {"name": 5},
        {"name": None, "customer": 5},
        {"customer": ""},
        {"customer": "x" * 501},
        {"customer": None},
        {"customer": {"a": 1}},
    ],
)
def test_a_refusal_is_the_same(body: dict[str, Any], engine: str, open_store: Any) -> None:
    """The refusal names the event, the measure and the reason, as in the live runner."""
    store = open_store(engine)
    store.append("order/1", NewEvent(SOLD, {"customer": "a", "cents": 1}))
    store.append("order/1", NewEvent(SOLD, {"customer": "b", **body}))
    store.append("order/1", NewEvent(SOLD, {"customer": "b", "cents": "another"}))
    with pytest.raises(errors.ProjectionRefused) as live:
        Live(store, Sold()).catch_up()
    with pytest.raises(errors.ProjectionRefused) as by_sql:
        rebuild_by_sql(store, Sold())
    assert str(by_sql.value) == str(live.value)
    assert [place.live for place in store.log.views.places()] == [True]


def test_an_altered_payload_is_refused(engine: str, open_store: Any) -> None:
    """A payload without its checksum is never summed up."""
    store = open_store(engine)
    store.append("order/1", NewEvent(SOLD, {"customer": "a", "cents": 1}))
    tamper(store.log.url, "order/1", 1, lambda event: replace(event, payload=b'{"cents":2,"customer":"a"}'))
    with pytest.raises(errors.Damaged, match="checksum"):
        rebuild_by_sql(store, Sold())


def test_a_payload_that_is_gone_without_a_note_is_refused(engine: str, open_store: Any) -> None:
    """Only an erased payload may be missing, also if it had the key."""
    store = open_store(engine)
    store.append("order/1", NewEvent(SOLD, {"customer": "a", "cents": 1}))
    tamper(store.log.url, "order/1", 1, lambda event: replace(event, payload=None))
    with pytest.raises(errors.Damaged, match="erasure"):
        rebuild_by_sql(store, Sold())


def test_a_pruned_log_is_refused(engine: str, open_store: Any) -> None:
    """Pruned events cannot be summed up again."""
    store = open_store(engine)
    store.append("order/1", [NewEvent(SOLD, {"customer": "a", "cents": 1})] * 1)
    store.append("order/1", NewEvent(SOLD, {"customer": "a", "cents": 1}))
    upkeep.prune(store, "order/1", 1)
    with pytest.raises(errors.HistoryPruned):
        rebuild_by_sql(store, Sold())


def test_an_upcaster_forces_python(open_store: Any) -> None:
    """And it is said."""
    catalog = Catalog()
    catalog.upcaster(SOLD, from_version=1)(lambda data: data)
    store = open_store("sqlite", catalog=catalog)
    assert "upcaster" in (why_not_in_database(store, Sold()) or "")
    with pytest.raises(errors.ProjectionInvalid, match="upcaster"):
        rebuild_by_sql(store, Sold())


def test_sums_past_64_bits_are_exact(engine: str, open_store: Any) -> None:
    """No database overflows, in any order."""
    high = (1 << 63) - 1
    wide = type("Wide", (Summary,), {"types": (SOLD,), "n": count(), "sum": sum_(payload.n), "two": top(2, payload.n)})
    store = open_store(engine)
    store.append("order/1", [NewEvent(SOLD, {"n": n}) for n in (high, high, -high - 1, high)])
    store.append("order/2", [NewEvent(SOLD, {"n": n}) for n in (-high - 1, -high - 1, 5)])
    rebuild_by_sql(store, wide())
    rows = ViewReader(store, "Wide")
    assert rows.get("order/1") == {"n": 4, "sum": str(2 * high - 1), "two": [high, high]}
    assert rows.get("order/2") == {"n": 3, "sum": str(-2 * high + 3), "two": [5, -high - 1]}
