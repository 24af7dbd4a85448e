"""A checked read takes a few more statements per page, whatever events are on it."""

from __future__ import annotations

import pytest

from tallystick import errors
from tallystick.store.prepare import Part
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.testing import tamper, upkeep
from tallystick.testing.builders import event

STREAMS = 900


@pytest.fixture
def filled(store):
    """Three rounds over many streams: on most pages no event comes after its predecessor."""
    for type_ in ("a.done", "b.done", "a.done"):
        store.append_all([Part(f"order/{number}", [event(type=type_)]) for number in range(STREAMS)])
    return store


def _statements(store, read):
    seen: list[str] = []
    with store.log._database.reading() as connection:
        connection.set_trace_callback(seen.append)
    try:
        page = read()
    finally:
        with store.log._database.reading() as connection:
            connection.set_trace_callback(None)
    return page, [statement for statement in seen if statement.startswith(("SELECT", "WITH", "--"))]


@pytest.mark.parametrize("selection", [EVERYTHING, Selection(types=("b.done",))], ids=["everything", "by type"])
def test_the_links_before_a_page_take_a_few_statements(filled, selection):
    """LH-18: not one for each event whose stream begins on an earlier page."""
    read = lambda: filled.log.read(after=STREAMS, limit=STREAMS, selection=selection)  # noqa: E731
    page, seen = _statements(filled, read)
    assert len(page.events) == STREAMS
    assert 1 < len(seen) <= 12
    with filled.log._database.reading() as connection:
        plans = [row[3] for query in seen for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert [plan for plan in plans if plan in ("SCAN events", "SCAN cuts")] == []


def test_noted_erasures_take_a_few_statements(filled):
    """LH-18: a page with many erased events is read as fast."""
    for number in range(40):
        upkeep.erase(filled, f"order/{number}", 2)
    page, seen = _statements(filled, lambda: filled.log.read(after=STREAMS, limit=STREAMS))
    assert sum(found.payload is None for found in page.events) == 40
    assert 1 < len(seen) <= 12


def test_each_event_is_held_against_its_own_stream(filled, path):
    """SAFE-01: if links are asked for together, each event still gets the one of its own stream, after a cut too."""
    for number in range(0, STREAMS, 90):
        upkeep.prune(filled, f"order/{number}", 1)
    assert len(filled.log.read(after=STREAMS, limit=STREAMS).events) == STREAMS
    tamper.tamper(f"sqlite:{path}", "order/898", 1, tamper.CHANGES["link"])
    with pytest.raises(errors.Damaged, match="order/898 seq 2"):
        filled.log.read(after=STREAMS + 898, limit=STREAMS)
