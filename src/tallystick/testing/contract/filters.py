"""Contract: filters choose events. They never change the order, and never hide how far the log was scanned."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tallystick import Event, Selection, Store, select
from tallystick.store.capabilities import ANY_STREAM, GLOBAL_ORDER
from tallystick.store.prepare import Part, Request
from tallystick.testing.builders import event
from tallystick.testing.contract.harness import Contract, needs

STREAMS = ("order/1", "order/2", "user/1", "user.x/1")
TYPES = ("thing.happened", "thing.undone", "thing")
ORGS, APPS, ENVS = ("acme", "bolt", None), ("web", None), ("prod", "test", None)

CONDITIONS: dict[str, Any] = {
    "streams": frozenset({"order/1", "user.x/1"}),
    "kinds": frozenset({"user", "order"}),
    "types": frozenset({"thing.undone", "thing"}),
    "org": "acme",
    "app": "web",
    "env": "prod",
    "time_from": 30,
    "time_until": 80,
}
SINGLE = [{key: value} for key, value in CONDITIONS.items()]
PAIRS = [dict(pair) for pair in itertools.combinations(CONDITIONS.items(), 2)]
MANY = [
    {k: v for k, v in CONDITIONS.items() if k not in drop} for drop in ((), ("streams",), ("org", "app"), ("types",))
]


def _plain_match(found: Event, wanted: dict[str, Any]) -> bool:
    """The conditions, written again without the code under test."""
    meta = found.metadata
    return (
        found.stream in wanted.get("streams", {found.stream})
        and found.stream.split("/")[0] in wanted.get("kinds", {found.stream.split("/")[0]})
        and found.type in wanted.get("types", {found.type})
        and all(meta.get(key) == wanted[key] for key in ("org", "app", "env") if key in wanted)
        and found.time >= wanted.get("time_from", 0)
        and found.time < wanted.get("time_until", 1 << 62)
    )


def _fill(store: Store) -> list[Event]:
    """100 events with every mix of stream, type, scope and time; the times are in no order."""
    dice = random.Random(7)
    orgs = dict(zip(STREAMS, ("acme", "bolt", "acme", None), strict=True))
    requests = []
    for number in range(100):
        stream = dice.choice(STREAMS)
        meta = {"org": orgs[stream], "app": dice.choice(APPS), "env": dice.choice(ENVS)}
        scope = {key: value for key, value in meta.items() if value is not None and dice.random() < 0.8}
        new = event(number, type=dice.choice(TYPES), time=dice.randrange(100), meta=scope)
        requests.append(Request([Part(stream, [new])]))
    assert all(isinstance(outcome, list) for outcome in store.submit(requests))
    return store.read().events


class FilterContract(Contract):
    """Selections."""

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_every_filter_and_every_pair_of_filters_chooses_exactly(self, store: Store) -> None:
        """CP-09, CP-15: stream, kind, type, org, app, env and time, alone and together, keep ascending order."""
        whole = _fill(store)
        for wanted in SINGLE + PAIRS + MANY:
            page = store.read(selection=Selection(**wanted))
            assert page.events == [found for found in whole if _plain_match(found, wanted)], wanted
            assert page.through == store.head()
        assert all(any(_plain_match(found, wanted) for found in whole) for wanted in SINGLE + PAIRS)

    @needs(ANY_STREAM, GLOBAL_ORDER)
    @pytest.mark.parametrize("limit", [1, 2, 5, 50])
    def test_filtered_pages_miss_nothing_and_move_on(self, store: Store, limit: int) -> None:
        """CP-04, CP-09: `through` advances under a filter, so that all pages together are the filtered log."""
        whole = _fill(store)
        wanted: dict[str, Any] = {"org": "acme", "types": frozenset({"thing"})}
        after, found = 0, []
        while after < store.head():
            page = store.read(after=after, selection=Selection(**wanted), limit=limit)
            assert page.through > after
            assert all(after < item.position <= page.through for item in page.events)
            found += page.events
            after = page.through
        assert found == [item for item in whole if _plain_match(item, wanted)]

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_a_filter_that_lets_nothing_pass_still_moves_on(self, store: Store) -> None:
        """The checkpoint of a filtered reader reaches the head, although no event matched."""
        _fill(store)
        for wanted in (select(org="nobody"), select(stream="order/none"), select(type="never"), select(kind="none")):
            page = store.read(selection=wanted)
            assert (page.events, page.through) == ([], store.head())

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_a_full_filtered_page_ends_at_its_last_event(self, store: Store) -> None:
        """`through` of a full page does not go past matching events that the page does not hold."""
        whole = [found for found in _fill(store) if found.type == "thing"]
        page = store.read(selection=select(type="thing"), limit=3)
        assert page.events == whole[:3]
        assert whole[2].position <= page.through < whole[3].position

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_windows_hold_under_filters(self, store: Store) -> None:
        """CP-15: after and until limit a filtered read like any other."""
        whole = _fill(store)
        after, until = whole[20].position, whole[70].position
        page = store.read(after=after, until=until, selection=select(org="acme"))
        wanted = [item for item in whole[21:71] if item.metadata.get("org") == "acme"]
        assert (page.events, page.through) == (wanted, until)

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_time_bounds_are_from_inclusive_until_exclusive(self, store: Store) -> None:
        """CP-15: time_from is in the window and time_until is not."""
        for time in (10, 20, 30):
            store.append("order/1", event(time, time=time))
        chosen = store.read(selection=select(time_from=10, time_until=30)).events
        assert [found.time for found in chosen] == [10, 20]

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_an_event_without_scope_matches_no_scope(self, store: Store) -> None:
        """CP-10: an event that names no org matches no org, whatever org its stream belongs to."""
        store.append("order/1", [event(1, meta={"org": "acme"}), event(2), event(3, meta={"org": "acme"})])
        assert [found.data["n"] for found in store.read(selection=select(org="acme")).events] == [1, 3]

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_a_scope_is_the_whole_text(self, store: Store) -> None:
        """CP-10: orgs that contain each other, wildcards or quotes are not confused."""
        orgs = ["a", "aa", "a%", "a_", "%", "a'b", 'a"b', "A", "a\\", "á"]
        for number, org in enumerate(orgs):
            store.append(f"order/{number}", event(number, meta={"org": org}))
        for number, org in enumerate(orgs):
            found = store.read(selection=select(org=org)).events
            assert [item.data["n"] for item in found] == [number], org
