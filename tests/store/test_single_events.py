"""One event on its own is prepared by a shorter way, and becomes exactly what the long one makes of it."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest

from tallystick import Catalog, NewEvent, errors
from tallystick.event import ids, limits, profiles
from tallystick.event.guard import SecretGuard
from tallystick.event.model import InDraft
from tallystick.store.prepare import Part, Preparer, Request

ID = bytes(range(16))
TOKEN = "ghp_" + "a1B2" * 9


class Fixed(ids.Minter):
    """Mints the same id again and again."""

    def mint(self, count: int, *, time_ns: int) -> list[bytes]:
        """As many as asked for."""
        return [ID] * count


def preparer(profile: str = "plain", **parts: Any) -> Preparer:
    """A preparer whose clock stands still."""
    given = {"catalog": Catalog(), "guard": SecretGuard(), "minter": Fixed()} | parts
    return Preparer(profile=profiles.named(profile), clock=lambda: 5_000_000, **given)


def outcome(made: list[Any] | errors.TallyError) -> Any:
    """What can be compared: the transaction, or the error and what it says."""
    found = made[0] if isinstance(made, list) else made
    return (type(found), str(found)) if isinstance(found, errors.TallyError) else found


def long_way(chosen: Preparer, request: Request) -> Any:
    """What a batch of one becomes."""
    try:
        return outcome(list(chosen._batch([request])))
    except errors.TallyError as refusal:
        return outcome(refusal)


STREAMS: list[Any] = ["order/1", "order", "tally.fact/x", "run/UPPER", 5, "order/" + TOKEN]
TYPES: list[Any] = ["order.placed", "not a type", "tally.fact", None]
PAYLOADS: list[Any] = [
    {"cents": 5, "text": "é \x7f", "deep": [{"a": [1.5, None, True]}]},
    {"bad": math.nan},
    {"bad": "\x00"},
    {"bad": (1, 2)},
    {1: 2},
    {"password": "hunter2", "token": TOKEN},
    {"large": "x" * limits.EVENT_BYTES_ADVISED},
    [1],
    b'{"a": 1}',
]
EXPECTED: list[Any] = [-1, 0, 7, True, -5, "1", limits.INT_MAX + 1]
FIELDS: list[dict[str, Any]] = [
    {},
    {"meta": {"org": "acme"}},
    {"meta": {}},
    {"version": 3},
    {"version": 0},
    {"id": bytes(16)},
    {"time": 9},
    {"time": -1},
    {"signature": bytes(64)},
    {"signature": b"short"},
]


def requests() -> list[Request]:
    """One thing unlike the plainest event at a time, and pairs of them."""
    found = [Request([Part(stream, [NewEvent(kind, PAYLOADS[0])])]) for stream, kind in product(STREAMS, TYPES)]
    found += [Request([Part("order/1", [NewEvent(kind, body)])]) for kind, body in product(TYPES, PAYLOADS)]
    found += [Request([Part("order/1", [NewEvent("a.b", PAYLOADS[0])], expected)]) for expected in EXPECTED]
    found += [Request([Part("order/1", [NewEvent("a.b", {}, **fields)])]) for fields in FIELDS]
    found += [Request([]), Request([Part("order/1", [])]), Request([Part("order/1", [{}])])]  # type: ignore[list-item]
    found += [Request([Part("tally.fact/x", [NewEvent("tally.fact", {})])], control=True)]
    found += [Request([Part("order/1", [NewEvent("a.b", {})])], require=(("order/2", 1),))]
    return found


CATALOG = Catalog()
CATALOG.upcaster("order.placed", from_version=1)(lambda data: data)
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no guard": {"guard": None},
    "a catalog": {"catalog": CATALOG},
    "defaults": {"defaults": {"org": "acme"}},
    "run": {"profile": "run"},
    "community": {"profile": "community"},
    "control-plane": {"profile": "control-plane"},
}


@pytest.mark.filterwarnings("ignore::tallystick.errors.LargeEventWarning")
@pytest.mark.parametrize("way", WAYS)
def test_the_short_way_makes_what_the_long_one_does(way: str) -> None:
    """LH-03: the same transaction or the same refusal, for everything that is given to a single append."""
    chosen = preparer(**WAYS[way])
    short = 0
    for request in requests():
        if way != "run":  # it fills in random ids
            assert outcome(chosen.prepare([request])) == long_way(chosen, request), request
        try:
            short += chosen._single(request) is not None
        except errors.TallyError:
            short += 1
    assert (short > 5) == (way in ("plain", "no guard")), "who takes the short way"


def test_a_plain_event_takes_the_short_way() -> None:
    """LH-03: otherwise nothing is gained, and the test above compares the long way with itself."""
    found = preparer()._single(Request([Part("order/1", [NewEvent("order.placed", {"cents": 5})], 3)]))
    assert found is not None
    assert found.drafts[0][InDraft.payload] == b'{"cents":5}'
