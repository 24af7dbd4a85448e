"""What pages are made from, without a browser: cursors, causes, chains, differences, and how values are shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import tallystick
from tallystick import NewEvent, Store
from tallystick.event import ids
from tallystick.server.console import causes, display, event_filter, events, links, render, streams
from tallystick.store.events import EventLog
from tallystick.store.gauges import MeteredLog
from tallystick.store.page import Hole
from tallystick.store.selection import EVERYTHING, select

MANY = 30_000


class CountingLog(MeteredLog):
    """A log that counts the events it hands out."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log, None)  # type: ignore[arg-type]
        self.handed_out = 0

    def read(self, **question: Any) -> Any:
        """Read, and count."""
        page = self._log.read(**question)
        self.handed_out += len(page.events)
        return page


@pytest.fixture(scope="module")
def long_log() -> Iterator[Store]:
    """A log in which one event in ten thousand is rare."""
    with tallystick.open("memory:") as store:
        batch = [NewEvent("rare" if number % 10_000 == 0 else "usual", {}) for number in range(1, MANY + 1)]
        store.append("a/1", batch)
        yield store


@pytest.fixture
def counting(long_log: Store) -> Iterator[CountingLog]:
    """The log, counted."""
    log, counted = long_log.log, CountingLog(long_log.log)
    long_log.log = counted  # type: ignore[assignment]
    yield counted
    long_log.log = log


def test_a_page_of_events_reads_no_more_than_it_shows(long_log: Store, counting: CountingLog) -> None:
    """The newest page of a long log reads as many events as it has lines, wherever it starts."""
    for until in (None, MANY // 2, 60):
        counting.handed_out = 0
        found = events.newest(long_log, until=until)
        assert len(found.events) == events.PAGE_EVENTS
        assert counting.handed_out == events.PAGE_EVENTS


def test_pages_meet_without_a_gap_or_an_overlap(long_log: Store) -> None:
    """CP-09: page after page gives every event once, newest first, with a filter or without."""
    for selection, expected in ((EVERYTHING, MANY), (select(type="usual"), MANY - 3), (select(type="rare"), 3)):
        seen: list[int] = []
        until: int | None = None
        while until != 0:
            found = events.newest(long_log, until=until, selection=selection, limit=997)
            seen += [event.position for event in found.events]
            until = found.reached
        assert seen == sorted(set(seen), reverse=True)
        assert len(seen) == expected


def test_a_look_for_what_is_rare_is_bounded(long_log: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that finds nothing stops after a bounded number of positions, and says how far it got."""
    monkeypatch.setattr(events, "SCANNED_MAX", 5_000)
    found = events.newest(long_log, selection=select(type="absent"))
    assert found.events == []
    assert 0 < found.reached <= MANY - 5_000
    assert found.more


def test_the_look_for_consequences_is_bounded(long_log: Store, counting: CountingLog) -> None:
    """Causes are found by id, consequences within a reach, and further only on demand."""
    event = long_log.read_stream("a/1", limit=1)[0]
    story = causes.find_causes(long_log, event, reach=300)
    assert counting.handed_out == 300
    assert "300 positions" in causes.says(story)
    assert causes.drawing(story, render.event_href)["more"]
    counting.handed_out = 0
    causes.find_causes(long_log, event, reach=10**9)
    assert counting.handed_out <= causes.REACH_MAX


def test_causes_have_no_cycle() -> None:
    """LH-03: an event that names itself, or a later one, as its cause is drawn once."""
    with tallystick.open("memory:") as store:
        one, other = ids.default.mint(2, time_ns=1)
        store.append("a/1", NewEvent("a", {}, {"causation_id": ids.to_text(other)}, id=one))
        store.append("a/1", NewEvent("b", {}, {"causation_id": ids.to_text(one)}, id=other))
        store.append("a/1", NewEvent("c", {}, {"causation_id": "no id at all"}))
        first, _, third = store.read_stream("a/1")
        story = causes.find_causes(store, first)
        assert sorted(map(len, story.columns)) == [1, 1]
        assert causes.find_causes(store, third).missing == ["no id at all"]


def test_a_forged_event_breaks_the_chain_on_both_sides() -> None:
    """CP-01: a changed payload or link is drawn as bad, and its links to both neighbours as broken."""
    with tallystick.open("memory:") as store:
        store.append("a/1", [NewEvent("a", {"n": number}) for number in range(1, 8)])
        assert {ring.kind for ring in links.of_stream(store, "a/1", 4)} == {"good"}
        forged = msgspec.structs.replace(store.read_stream("a/1")[3], payload=b'{"n":99}')
        rings = links.of_stream(_forging(store, forged), "a/1", 4)
        assert [ring.kind for ring in rings] == ["good", "good", "bad", "good", "good"]
        assert [ring.breaks for ring in rings] == [False, True, True, False, False]
        retyped = msgspec.structs.replace(store.read_stream("a/1")[3], type="b")
        rings = links.of_stream(_forging(store, retyped), "a/1", 4)
        assert rings[2].kind == "bad"
        assert rings[2].computed != rings[2].link


def _forging(store: Store, forged: Any) -> Any:
    """A store one of whose events reads as another."""

    class Forged(MeteredLog):
        def read_stream(self, stream: str, **question: Any) -> Any:
            found = self._log.read_stream(stream, **question)
            return [forged if event.seq == forged.seq else event for event in found]

    class Other(Store):
        def __init__(self) -> None:
            self.log = Forged(store.log, None)  # type: ignore[arg-type, assignment]

    return Other()


def test_a_hole_is_drawn_between_its_neighbours() -> None:
    """Settled 15: the events before and after a damaged range are shown, wherever in the log it lies."""
    with tallystick.open("memory:") as store:
        store.append("a/1", [NewEvent("a", {}) for _ in range(9)])
        kinds = [ring.kind for ring in links.around_hole(store, Hole(4, 6, "flipped"))]
        assert kinds == ["good", "good", "hole", "good", "good"]
        assert links.around_hole(store, Hole(1, 9, "all of it"))[0].type == "9 damaged positions"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({}, {"a": 1}, [("added", "a", None, "1")]),
        ({"a": 1}, {}, [("removed", "a", "1", None)]),
        ({"a": 1}, {"a": 1.0}, [("changed", "a", "1", "1.0")]),
        ({"a": True}, {"a": 1}, [("changed", "a", "true", "1")]),
        ({"a": [1, 2]}, {"a": [1, 3, 4]}, [("changed", "a[1]", "2", "3"), ("added", "a[2]", None, "4")]),
        ({"a": {"b": None}}, {"a": {"b": []}}, [("changed", "a.b", "null", "[]")]),
        ({"a": 1}, [1], [("changed", "state", '{"a":1}', "[1]")]),
        ({"x": [1]}, {"x": [1]}, []),
    ],
)
def test_what_an_event_changed_is_listed_field_by_field(before: Any, after: Any, told: list[Any]) -> None:
    """EVT-02: added, removed and changed fields with both values; equal ones are left out."""
    found, more = streams.differences(before, after)
    assert [(each.kind, each.path, each.before, each.after) for each in found] == told
    assert not more


def test_a_long_list_of_changes_is_cut() -> None:
    """The list of changes is bounded, and says that there are more."""
    found, more = streams.differences({}, {str(number): number for number in range(1000)})
    assert len(found) == streams.CHANGES_MAX
    assert more


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain", "plain"),
        ("a\u202eb", "a‹U+202E›b"),
        ("a\u0000b", "a‹U+0000›b"),
        ("ü 😀\n", "ü 😀\n"),
        ("\u2028", "‹U+2028›"),
    ],
)
def test_every_character_can_be_seen(text: str, seen: str) -> None:
    """Characters that reverse, join or hide text are shown by number; letters of any language stay."""
    assert display.plain(text) == seen


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"type": "(a+)+$"}, "type"),
        ({"stream": "x"}, "stream"),
        ({"since": "yesterday"}, "since"),
        ({"till": "1500-01-01"}, "till"),
        ({"org": "\u202e"}, "org"),
    ],
)
def test_a_filter_names_the_field_that_is_wrong(given: dict[str, str], field: str) -> None:
    """CP-09: an invalid filter is refused with the field and the form that it must have."""
    asked = event_filter.read(given)
    assert asked.wrong == (field,)
    assert asked.problem


def test_a_filter_selects_what_was_typed() -> None:
    """CP-15: names exactly, times in UTC, and the query that gives the same filter again."""
    asked = event_filter.read(
        {"type": "order.placed", "since": "2026-01-31", "till": "2026-01-31T00:00:01+00:00", "x": "y"}
    )
    assert asked.selection.types == frozenset({"order.placed"})
    assert asked.selection.time_until - asked.selection.time_from == 1_000_000_000  # type: ignore[operator]
    assert (
        event_filter.read(
            dict(pair.split("=") for pair in asked.query.replace("%3A", ":").replace("%2B", "+").split("&"))
        )
        == asked
    )


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("files:/var/log", "files:/var/log"),
        ("postgresql://me:secret@db.example:5432/shop?sslmode=x", "postgresql://db.example:5432/shop"),
    ],
)
def test_a_place_is_shown_without_its_password(url: str, told: str) -> None:
    """CP-11: secrets in an address are never on a page."""
    assert render.shown_url(url) == told
