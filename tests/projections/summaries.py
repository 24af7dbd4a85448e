"""A summary with every measure, random histories for it, and its expected rows, computed in plain Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

from hypothesis import strategies as st

import tallystick
from tallystick import Event, NewEvent
from tallystick.event import canonical
from tallystick.projections.summary import (
    DAY,
    HOUR,
    Summary,
    count,
    latest,
    max_,
    max_text,
    min_,
    min_text,
    payload,
    set_,
    sum_,
    top,
)
from tests.projections.histories import History, steps
from tests.projections.histories import play as replay

SOLD, REFUNDED = "shop.sold", "shop.refunded"
KEYS = ["a", "b", "Ä", "a\n", "\\n", "日本", "\U0001f600", "ﬁ", '"', "12", "true", "x" * 500]


class Everything(Summary):
    """Has every measure."""

    types = (SOLD, REFUNDED)
    key: ClassVar[Any] = payload.customer

    events = count()
    with_note = count(payload.note)
    refunds = count(of=REFUNDED)
    total = sum_(payload.cents)
    money = sum_(payload.price, places=2)
    least = min_(payload.cents)
    most = max_(payload.cents, of=SOLD)
    dearest = max_(payload.price, places=2)
    first_city = min_text(payload.to.city)
    last_city = max_text(payload.to.city)
    note = latest(payload.note)
    notes = set_(payload.note)
    best = top(2, payload.cents)
    by_day = sum_(payload.cents, per=DAY)
    by_hour = count(of=SOLD, per=HOUR)


class ByStream(Everything):
    """The same, with one row per stream: inline runners can run it, and erased events count."""

    key = "stream"


texts = st.sampled_from(KEYS) | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=4)
cents = st.integers(-5, 5) | st.integers(-(1 << 63), (1 << 63) - 1)
prices = st.integers(-(10**13) + 1, 10**13 - 1) | st.integers(-99999, 99999).map(lambda found: found / 100)
notes: st.SearchStrategy[Any] = st.sampled_from([None, True, False, 0, 1, 1.0, -0.0, 0.0, 1e22, 0.1, "1", "", [], {}])
notes |= st.sampled_from([5e-324, 12345678901.5])
notes |= st.sampled_from([[1, 2.50, {"é": "\x1f\x7f\u2028"}], {"a": {"b": [None, 9007199254740993]}}, "true", "\x1f\\"])
notes |= texts | st.floats(allow_nan=False, allow_infinity=False)
cities = st.one_of(st.none(), st.just(5), st.just([{"city": "x"}]), st.fixed_dictionaries({}, optional={"city": texts}))
fields = {"cents": cents | st.none(), "price": prices | st.none(), "to": cities, "note": notes, "other": notes}
bodies = st.builds(
    lambda body, customer: body | {"customer": customer}, st.fixed_dictionaries({}, optional=fields), texts.filter(len)
)
edges = [0, 1, 3_599_999_999_999, (1 << 63) - 1]
times = st.sampled_from(edges) | st.integers(0, 80).map(lambda half: half * 1_800_000_000_000)
made = st.builds(
    lambda type_, body, time: NewEvent(type_, body, time=time), st.sampled_from([SOLD, REFUNDED]), bodies, times
)
streams = st.sampled_from(["order/1", "order/2", "order/3"])

appends = st.tuples(st.just("append"), streams, st.lists(made, min_size=1, max_size=4))
erasures = st.tuples(st.just("erase"), streams, st.integers(1, 6))
histories = st.lists(st.one_of(appends, appends, appends, steps, erasures), max_size=20)


def play(store: tallystick.Store, history: History) -> None:
    """Replay a history, with steps of live runners in between, at random."""
    replay(store, history, (Everything(), ByStream()))


def rows_of(store: tallystick.Store, name: str) -> dict[str, bytes]:
    """Keys and states as they are stored."""
    place = store.log.views.place(name)
    assert place is not None
    return {row.key: row.state or b"" for row in store.log.views.rows(name, limit=100_000).rows}


def expected(events: list[Event], key: str) -> dict[str, bytes]:
    """The rows, computed in plain Python: all events of a key at once, with decimals."""
    grouped: dict[str, list[Event]] = {}
    for event in events:
        if event.type in (SOLD, REFUNDED) and (key == "stream" or event.data is not None):
            grouped.setdefault(event.stream if key == "stream" else event.data["customer"], []).append(event)
    return {key: canonical.encode_state(_state(its)) for key, its in grouped.items()}


def _state(its: list[Event]) -> dict[str, Any]:
    def values(name: str, of: tuple[str, ...] = (SOLD, REFUNDED)) -> list[Any]:
        found = [(event.data or {}).get(name) for event in its if event.type in of]
        return [value for value in found if value is not None]

    cents, notes = values("cents"), values("note")
    prices = [Decimal(canonical.encode_state(price).decode()) for price in values("price")]
    cities = [to["city"] for to in values("to") if type(to) is dict and "city" in to]
    days: dict[str, int] = {}
    hours: dict[str, int] = {}
    for event in its:
        shown = _shown(event.time)
        if event.type == SOLD:
            hours[shown[:13]] = hours.get(shown[:13], 0) + 1
        if (found := (event.data or {}).get("cents")) is not None:
            days[shown[:10]] = days.get(shown[:10], 0) + found
    return {
        "events": len(its),
        "with_note": len(notes),
        "refunds": sum(event.type == REFUNDED for event in its),
        "total": _fit(sum(cents)),
        "money": f"{sum(prices, Decimal(0)) + 0:.2f}",
        "least": min(cents, default=None),
        "most": max(values("cents", (SOLD,)), default=None),
        "dearest": f"{max(prices) + 0:.2f}" if prices else None,
        "first_city": min(cities, default=None),
        "last_city": max(cities, default=None),
        "note": notes[-1] if notes else None,
        "notes": sorted({_tag(note): note for note in notes}.values(), key=_tag),
        "best": sorted(cents, reverse=True)[:2],
        "by_day": {day: _fit(total) for day, total in days.items()},
        "by_hour": hours,
    }


def _tag(value: Any) -> str:
    return f'"{value}' if type(value) is str else canonical.encode_state(value).decode()


def _fit(total: int) -> Any:
    return total if -(1 << 63) <= total < 1 << 63 else str(total)


def _shown(time: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time // 10**9)).isoformat()
