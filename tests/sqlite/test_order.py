"""The order of events, and the atomicity of commits."""

from __future__ import annotations

import sqlite3
import tracemalloc

import pytest

from tallystick import NO_STREAM, NewEvent, errors
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import upkeep


def test_positions_rise_and_seqs_have_no_gaps(store, some):
    """EVT-01: position is a total order over all streams, and inside each stream seq counts 1, 2, 3."""
    for round_ in range(5):
        store.append("order/a", some(2))
        store.append("order/b", some(round_ + 1))
    events = store.read().events
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    for stream in ("order/a", "order/b"):
        assert [event.seq for event in store.read_stream(stream)] == list(range(1, store.stream_head(stream).seq + 1))


def test_time_does_not_order(store):
    """EVT-01: an event with an earlier time keeps its position."""
    store.append("order/a", NewEvent("thing.done", {}, time=2_000))
    store.append("order/a", NewEvent("thing.done", {}, time=1_000))
    assert [event.time for event in store.read().events] == [2_000, 1_000]


def test_several_streams_commit_together_or_not_at_all(store, some):
    """CP-05: if one stream of a commit is refused, nothing is written to the others."""
    store.append("order/b", some(1))
    with pytest.raises(errors.Conflict):
        store.append_all([("order/a", some(2), NO_STREAM), ("order/b", some(2), NO_STREAM)])
    assert store.stream_head("order/a") is None
    assert store.head() == 1
    store.append_all([("order/a", some(2), NO_STREAM), ("order/b", some(2), 1)])
    assert store.head() == 5


def test_refused_requests_of_a_group_leave_no_trace(store, some, path):
    """Requests of a group are judged one by one and written together. A refused one takes no position and no seq."""
    good, bad = Request([Part("order/a", some(2))]), Request([Part("order/a", some(1), expected=7)])
    outcomes = store.submit([good, bad, good])
    assert isinstance(outcomes[1], errors.Conflict)
    assert outcomes[1].actual == 2  # it was judged after what stood before it in the group
    assert [event.position for event in store.read().events] == [1, 2, 3, 4]
    assert outcomes[2][0].last_seq == 4


def test_a_commit_that_changes_nothing_writes_nothing(store, path):
    """A retry of a stored commit is answered without a write."""
    event = NewEvent("thing.done", {"n": 1}, id=bytes(15) + b"\1")
    first = store.append("order/a", event)
    changes = _data_version(path, store, event)
    assert changes == 0
    assert store.append("order/a", event).last_position == first.last_position


def _data_version(path, store, event) -> int:
    """How often another connection saw the database change over a retry."""
    other = sqlite3.connect(path)
    try:
        before = other.execute("PRAGMA data_version").fetchone()[0]
        store.append("order/a", event)
        return other.execute("PRAGMA data_version").fetchone()[0] - before
    finally:
        other.close()


def test_positions_are_never_reused(path, reopen, some):
    """EVT-01: the next position follows the highest one ever assigned, not the highest that still exists."""
    store = reopen()
    store.append("order/a", some(3))
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE sqlite_sequence SET seq = 10 WHERE name = 'events'")
    raw.close()
    assert store.append("order/a", some(1)).position == 11
    page = store.read(after=3, limit=1, over_holes=True)
    assert ([event.position for event in page.events], page.through) == ([11], 11)
    assert [(hole.first, hole.last) for hole in page.holes] == [(4, 10)]  # given once, and nothing says to what


@pytest.mark.parametrize("count", [1, 15, 16, 17, 127, 128, 129, 300])
def test_commits_of_every_size_are_whole(store, count):
    """CP-05: events are inserted in groups; none is lost or duplicated between them."""
    orgs = [{"org": "acme"}, None, {"app": "shop"}]
    store.append("order/a", [NewEvent("thing.done", {"n": n}, meta=orgs[n % 3]) for n in range(count)])
    assert [event.data["n"] for event in store.read_stream("order/a")] == list(range(count))
    assert verify(store.log).problems == []


def test_what_was_appended_verifies(store, some):
    """Checksums, links, sequences and the tables agree after appends of several shapes."""
    store.append("order/a", some(10, org="acme", app="shop", env="prod", source="s", source_seq=1)[:1])
    store.append_all([("order/a", some(3), 1), ("run/1", some(2), NO_STREAM)])
    store.configure(secrets="warn")
    found = verify(store.log)
    assert (found.problems, found.events, found.streams) == ([], 7, 3)


def test_a_page_over_much_that_was_pruned_takes_no_memory_for_it(store, some):
    """Pruned events are counted where they are recorded: a page takes memory only for its events, and misses none."""
    store.append("order/a", some(4000))
    upkeep.prune(store, "order/a", 3999)
    tracemalloc.start()
    try:
        page = store.read(over_pruned=True)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert page.events[0].position == 4000
    assert most < 100_000
