"""Erased payloads of a file log: served by nothing any more. That they leave the disk is in test_compact_erased.py."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.engines.files.side import SideRecords
from tallystick.store.ledger import Ledger
from tallystick.store.selection import select
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events

WAYS = {
    "by position": lambda store, event: store.read(after=event.position - 1, limit=1).events[0],
    "selected": lambda store, event: store.read(selection=select(stream="order/1")).events[event.seq - 1],
    "by seq": lambda store, event: store.read_stream("order/1", after=event.seq - 1, limit=1)[0],
    "by id": lambda store, event: store.find(event.id),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("readonly", [False, True], ids=["writer", "reader"])
def test_a_frame_that_was_kept_does_not_serve_what_was_erased_since(opened: Any, way: Any, readonly: bool) -> None:
    """EVT-14: every way of reading had the payload and keeps its frame in memory, and never returns it again."""
    store = opened()
    store.append("order/1", events(5))
    reader = opened(readonly=True) if readonly else store
    event = store.read_stream("order/1")[2]
    assert way(reader, event) == event
    upkeep.erase(store, "order/1", 3)
    assert way(reader, event).payload is None
    assert way(reader, event).checksum == event.checksum


def test_an_erasure_that_no_fact_tells_of_is_found(opened: Any) -> None:
    """EVT-14: a mark that was put in a frame without its control fact does not pass verification."""
    store = opened()
    store.append("order/1", events(3))
    erasure = upkeep.erasure_of(store.read_stream("order/1")[1])
    log, writer = store.log, store.log._require_writer()
    records = SideRecords(erasures=(erasure,))
    log._write(writer, Ledger(log, next_position=writer.current.next_position, holder=log._holder), records)
    (problem,) = verify(log).problems
    assert (problem.what, problem.seq) == ("erasure", 2)
    assert "no control fact" in problem.reason


def test_an_index_that_conceals_an_erasure_is_found(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """EVT-14: verification compares what an index says was erased with what the frames say."""
    store = opened(segment_bytes_max=4096)
    store.append("order/1", events(30))  # nearly a segment by itself: the erasure comes to stand in the next one
    store.append("order/2", events(5))
    upkeep.erase(store, "order/1", 2)
    monkeypatch.setattr(Lifecycle, "_erase", lambda self, position: None)
    store.log._view.segments[-1].grow().life.erased.clear()
    store.close()
    monkeypatch.undo()
    again = opened()
    found = list(again.log.check(lambda done: None))
    assert [problem.what for problem in found] == ["index"]
    assert "differ in what was pruned, erased or kept" in found[0].reason


def test_nothing_is_looked_at_behind_the_last_erasure(opened: Any) -> None:
    """EVT-14: a replay of what was never touched costs nothing more than before."""
    store = opened()
    for number in range(10):
        store.append("order/1", events(5, first=number))
    upkeep.erase(store, "order/1", 7)
    life = store.log._view.life
    behind = store.read_stream("order/1", after=10)
    assert life.visible(behind) is behind
    upkeep.erase(store, "order/1", 12)
    assert life.visible(behind) is not behind
