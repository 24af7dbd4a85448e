"""Damaged pages: intact events are served, the damage is reported, and nothing is appended."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.store.verify import verify
from tallystick.testing import upkeep

EVENTS = 900
_DIE = """
import os, sys, tallystick
store = tallystick.open("sqlite:" + sys.argv[1])
store.append("order/b", tallystick.NewEvent("thing.done", {}))
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def filled(path, reopen):
    """A closed store, all of it in its main file."""
    store = reopen()
    store.append("order/a", [NewEvent("thing.done", {"n": n, "text": "x" * 300}) for n in range(EVENTS)])
    store.close()
    return path


def _pages_of(path: str, name: str) -> list[int]:
    """The leaf pages of a table or index; the root is only one of them if it is the only one."""
    raw = sqlite3.connect(path)
    (root,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    raw.close()
    content = Path(path).read_bytes()
    page = content[(root - 1) * 4096 : root * 4096]
    cells = int.from_bytes(page[3:5], "big")
    pointers = [int.from_bytes(page[12 + 2 * cell : 14 + 2 * cell], "big") for cell in range(cells)]
    return [int.from_bytes(page[pointer : pointer + 4], "big") for pointer in pointers]


def _overwrite(path: str, page: int, content: bytes = bytes(4096)) -> None:
    with open(path, "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(content)


def _leave_uncleanly(path: str, spawn) -> None:
    """Kill a writer, so that the next opening inspects the store."""
    child = spawn(_DIE, path)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    child.wait()


def _assert_serves_all_but(store, first: int, last: int) -> None:
    with pytest.raises(errors.Damaged) as damage:
        store.read(after=first - 1)
    assert (damage.value.first, damage.value.last) == (first, last)
    before = store.read(limit=100_000)
    assert [event.position for event in before.events] == list(range(1, first))
    assert before.through == first - 1
    behind = store.read(after=first - 1, over_holes=True, limit=100_000)
    assert [event.position for event in behind.events] == list(range(last + 1, store.head() + 1))
    assert [(hole.first, hole.last) for hole in behind.holes] == [(first, last)]
    outside = store.read(after=last, over_holes=True, limit=100_000)  # as the error advises
    assert (outside.events, outside.holes) == (behind.events, ())
    assert store.read(after=last, limit=100_000).events == behind.events


def test_a_zeroed_page_found_after_a_crash_becomes_a_hole(filled, spawn, reopen, some):
    """Settled 15: the store opens by itself, read-only, and appends raise `Damaged` with the range."""
    page = _pages_of(filled, "events")[10]
    _leave_uncleanly(filled, spawn)
    _overwrite(filled, page)
    store = reopen()
    (hole,) = store.holes()
    assert 1 < hole.first <= hole.last < EVENTS
    _assert_serves_all_but(store, hole.first, hole.last)
    with pytest.raises(errors.Damaged) as damage:
        store.append("order/a", some(1))
    assert (damage.value.first, damage.value.last) == (hole.first, hole.last)
    assert any(problem.what == "hole" for problem in store.report().problems)
    assert not verify(store.log).ok


def test_a_zeroed_page_found_by_a_reader_becomes_a_hole(filled, reopen, some):
    """Settled 15: damage that only a read finds ends the page there, and stops appends."""
    _overwrite(filled, _pages_of(filled, "events")[10])
    store = reopen()
    assert store.holes() == []
    with pytest.raises(errors.Damaged):
        list(store.events())
    (hole,) = store.holes()
    _assert_serves_all_but(store, hole.first, hole.last)
    with pytest.raises(errors.Damaged):
        store.append("order/a", some(1))


def test_a_changed_payload_at_the_end_is_found_after_a_crash(filled, spawn, reopen):
    """SQLite sees nothing wrong with a changed payload; the checksum does, and the event is not served."""
    raw = sqlite3.connect(filled)
    (trigger,) = raw.execute("SELECT sql FROM sqlite_master WHERE name = 'events_are_not_changed'").fetchone()
    raw.execute("DROP TRIGGER events_are_not_changed")
    raw.execute("UPDATE events SET payload = x'7b7d' WHERE position = ?", (EVENTS,))
    raw.execute(trigger)
    raw.commit()
    raw.close()
    _leave_uncleanly(filled, spawn)
    store = reopen()
    assert [(hole.first, hole.last) for hole in store.holes()] == [(EVENTS, EVENTS)]
    _assert_serves_all_but(store, EVENTS, EVENTS)
    with pytest.raises(errors.Damaged):
        store.read_stream("order/a", after=EVENTS - 2)


def test_a_damaged_index_stops_appends_and_no_read(filled, spawn, reopen, some):
    """If every event is intact, all are served. But a store that cannot look up ids must not append."""
    page = _pages_of(filled, "sqlite_autoindex_events_2")[1]
    _leave_uncleanly(filled, spawn)
    _overwrite(filled, page)
    store = reopen()
    assert [(hole.first, hole.last) for hole in store.holes()] == [(0, 0)]
    assert len(store.read(limit=1000).events) == EVENTS + 1
    with pytest.raises(errors.Damaged):
        store.append("order/a", some(1))


def test_a_pruned_position_is_not_a_hole(filled, spawn, reopen):
    """Settled 15: a pruned position is told from a lost one, in a damaged store too."""
    store = reopen()
    upkeep.prune(store, "order/a", 300)
    store.close()
    page = _pages_of(filled, "events")[20]
    _leave_uncleanly(filled, spawn)
    _overwrite(filled, page)
    store = reopen()
    (hole,) = store.holes()
    assert 300 < hole.first <= hole.last < EVENTS
    left = store.read(over_holes=True, over_pruned=True, limit=1000)
    assert [event.position for event in left.events] == list(range(301, hole.first))
    assert store.read_stream("order/a", after=hole.last)[0].position == hole.last + 1


def test_a_crash_after_a_prune_is_not_damage(filled, spawn, reopen):
    """The rest of a pruned stream follows the link of its cut, and is inspected like any other."""
    store = reopen()
    upkeep.prune(store, "order/a", EVENTS - 2)
    store.close()
    _leave_uncleanly(filled, spawn)
    store = reopen()
    assert "did not close" in store.report().recovered[0]
    assert store.holes() == []
    assert verify(store.log).problems == []


def test_a_snapshot_on_a_damaged_page_cannot_be_read(filled, reopen):
    """LH-12: a body that cannot be read counts as missing; everything else is served."""
    store = reopen()
    made = [upkeep.snapshot(store, "order/a", b'{"text":"%s"}' % (b"x" * 3000)) for _ in range(4)]
    store.close()
    _overwrite(filled, _pages_of(filled, "snapshots")[0])
    store = reopen()
    bodies = [store.log.snapshots.load(snapshot.id) for snapshot in made]
    assert None in bodies
    assert {body for body in bodies if body is not None} <= {snapshot.body for snapshot in made}
    assert len(store.read(limit=1000).events) == 904


def test_a_damaged_store_opens_for_reading_too(filled, spawn, reopen):
    """Settled 15: a store that is read-only by request shows the same hole as one that is read-only by damage."""
    page = _pages_of(filled, "events")[10]
    _leave_uncleanly(filled, spawn)
    _overwrite(filled, page)
    first = reopen(readonly=True)
    holes = first.holes()
    assert holes
    first.close()
    assert [(hole.first, hole.last) for hole in reopen().holes()] == [(hole.first, hole.last) for hole in holes]


def test_a_damaged_schema_is_named(filled):
    """If nothing can be read, opening raises `Damaged` and not an error about SQL."""
    content = Path(filled).read_bytes()[:4096]
    _overwrite(filled, 1, content[:100] + bytes(3996))
    with pytest.raises(errors.Damaged):
        tallystick.open(f"sqlite:{filled}")


def test_a_living_writer_is_not_taken_for_a_crash(store, path, spawn, reopen, some):
    """While another handle writes, its write-ahead log is not a sign of a crash."""
    store.append("order/a", some(1))
    _leave_uncleanly(path, spawn)
    assert reopen().report().recovered == ()


def test_a_crash_is_reported_once(path, spawn, reopen):
    """Recovery is reported by the opening that did it, and by no later one."""
    _leave_uncleanly(path, spawn)
    store = reopen()
    assert "did not close" in store.report().recovered[0]
    assert store.report().facts["writers"] == reopen().report().facts["writers"][:1]
    assert reopen().report().recovered == ()


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM streams",
        "UPDATE streams SET seq = seq - 1",
        "UPDATE streams SET link = zeroblob(32)",
        "DELETE FROM events WHERE position = (SELECT max(position) FROM events)",
    ],
)
def test_a_stream_whose_recorded_end_is_not_that_of_its_events_has_none(filled, reopen, some, change):
    """SAFE-01: a look-up that a damaged table or index misleads is refused, and so is the append that relies on it."""
    raw = sqlite3.connect(filled, isolation_level=None)
    triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        raw.execute(f"DROP TRIGGER {name}")
    raw.execute(change)
    for _, sql in triggers:
        raw.execute(sql)
    raw.close()
    with pytest.raises(errors.Damaged, match="order/a ends at seq"):
        reopen().stream_head("order/a")
    with pytest.raises(errors.Damaged):
        reopen().append("order/a", some(1))
    assert reopen().report().problems


@pytest.mark.security
def test_a_missing_checkpoint_is_noticed(filled, reopen, tmp_path):
    """SAFE-01: a missing part of the table is noticed: without a checkpoint a consumer would see all events again."""
    names = [f"consumer-{number}" for number in range(6)]
    with reopen() as store:
        for position, name in enumerate(names, start=1):
            store.save_checkpoint(name, position)
    raw = sqlite3.connect(filled)
    (page,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'checkpoints'").fetchone()
    raw.close()
    whole, served = Path(filled).read_bytes(), 0
    for begin in range((page - 1) * 4096, page * 4096, 64):
        Path(filled).write_bytes(whole[:begin] + bytes(64) + whole[begin + 64 :])
        with reopen(readonly=True) as store:
            for position, name in enumerate(names, start=1):
                try:
                    assert store.load_checkpoint(name) == position
                    served += 1
                except (errors.Damaged, errors.CheckpointDamaged):
                    pass
        Path(f"{filled}.damage").unlink(missing_ok=True)
    assert served > 200


@pytest.mark.security
@pytest.mark.parametrize("where", ["the file", "the write-ahead log"])
def test_verification_looks_past_pages_that_were_read_before(path, reopen, where):
    """SAFE-01: a handle that has read everything still verifies the file as it is now."""
    store = reopen()
    for number in range(30):
        store.append("order/a", NewEvent("thing.done", {"text": f"marker{number:04}" + "x" * 300}))
    if where == "the file":
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert len(store.read_stream("order/a")) == 30
    assert verify(store.log).ok
    changed = Path(path if where == "the file" else f"{path}-wal")
    data = changed.read_bytes()
    at = data.rindex(b"marker0007")
    with changed.open("r+b") as file:
        file.seek(at)
        file.write(b"M")
    assert [problem.position for problem in verify(store.log).problems] == [8]


@pytest.mark.security
@pytest.mark.parametrize("frames_back", range(1, 7))
def test_a_log_that_goes_back_under_a_reader_is_not_served_as_whole(path, reopen, frames_back):
    """SAFE-01: an older page in a frame of the write-ahead log hides the newest events. Once seen, it is refused."""
    store = reopen()
    for number in range(40):
        store.append("order/a", NewEvent("thing.done", {"n": number}))
    reader = reopen(readonly=True)
    assert (reader.head(), len(reader.read_stream("order/a"))) == (40, 40)
    log = Path(f"{path}-wal")
    at = log.stat().st_size - frames_back * (4096 + 24) + 24
    with log.open("r+b") as file:
        file.seek(at)
        file.write(bytes(1024))
    assert not verify(reader.log).ok
    for question, right in (
        (lambda: len(list(reader.events())), 40),
        (lambda: len(reader.read_stream("order/a")), 40),
        (lambda: reader.stream_head("order/a").seq, 40),
    ):
        with suppress(errors.Damaged):
            assert question() == right
