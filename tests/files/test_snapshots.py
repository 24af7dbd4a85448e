"""The files of snapshots: whole or not a snapshot, removed when no frame names them, no burden on appends."""

from __future__ import annotations

import calendar
import errno
import gzip
import json
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick import NewEvent, errors, state
from tallystick.engines.disk import Disk
from tallystick.engines.files.snapshots import name_of
from tallystick.event import ids
from tallystick.store.filesystem import FULL
from tallystick.store.maintenance import Maintenance
from tallystick.store.prepare import Part, Request
from tallystick.store.snapshots import DIFF
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events
from tallystick.testing.faults import Fault, FaultyFileSystem

BODY = b'{"n":1}'
LARGE_BYTES = 50_000_000
BOMB_BYTES = 64 << 20
EXTRA_BYTES_MAX = 300_000_000


def path_of(directory: Path, id_: bytes) -> Path:
    """Where a snapshot's file is."""
    return directory / "snapshots" / name_of(id_)


@pytest.fixture
def made(opened: Any) -> tuple[Any, Any]:
    """An open log with one snapshot."""
    store = opened()
    store.append("order/1", events(3))
    return store, upkeep.snapshot(store, "order/1", BODY)


def test_the_file_is_gzip_of_one_canonical_document(made: Any, directory: Path) -> None:
    """EVT-02: anyone can read a snapshot with gzip and a JSON parser; its bytes are canonical."""
    _, snapshot = made
    data = gzip.decompress(path_of(directory, snapshot.id).read_bytes())
    document = json.loads(data)
    assert data == json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    assert document["state"] == {"n": 1}
    assert (document["id"], document["last_sequence"]) == (ids.to_text(snapshot.id), 3)
    assert document["link"] == snapshot.link.hex()
    assert (document["kind"], document["base_snapshot_id"], document["events_since_base"]) == ("full", None, 0)


def test_a_difference_names_its_base(made: Any, directory: Path) -> None:
    """LH-13: a snapshot of kind diff has its body under another name, and comes back as it was given."""
    store, snapshot = made
    body = b'[{"op":"replace","path":"/n","value":2}]'
    diff = upkeep.snapshot(store, "order/1", body, kind=DIFF, base=snapshot.id)
    document = json.loads(gzip.decompress(path_of(directory, diff.id).read_bytes()))
    assert (document["diff"], document["base_snapshot_id"]) == (json.loads(body), ids.to_text(snapshot.id))
    assert "state" not in document
    assert store.log.snapshots.load(diff.id) == body


def cut_short(path: Path) -> None:
    """Take the last bytes away."""
    path.write_bytes(path.read_bytes()[:-3])


def prolong(path: Path) -> None:
    """Put something after the end."""
    path.write_bytes(path.read_bytes() + b"x")


def flip_middle(path: Path) -> None:
    """Change one bit of the body."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def rename_inside(path: Path) -> None:
    """Make it the snapshot of another id, in the place of this one."""
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text.replace(path.stem[-36:].encode(), ids.to_text(bytes(16)).encode())))


def empty(path: Path) -> None:
    """Leave nothing in it."""
    path.write_bytes(b"")


def no_gzip(path: Path) -> None:
    """Put plain JSON there."""
    path.write_bytes(gzip.decompress(path.read_bytes()))


def no_json(path: Path) -> None:
    """Put well-packed nonsense there."""
    path.write_bytes(gzip.compress(b'{"id":'))


def directory_instead(path: Path) -> None:
    """Put a directory there."""
    path.unlink()
    path.mkdir()


DAMAGE: list[Callable[[Path], None]] = [
    *(cut_short, prolong, flip_middle, rename_inside, empty, no_gzip, no_json, directory_instead, Path.unlink),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_no_body(made: Any, directory: Path, damage: Callable[[Path], None]) -> None:
    """EVT-02, LH-12: whatever became of the file, the body is absent, verification says so, and no event is touched."""
    store, snapshot = made
    before = store.read().events
    damage(path_of(directory, snapshot.id))
    assert store.log.snapshots.load(snapshot.id) is None
    assert [problem.what for problem in verify(store.log).problems] == ["snapshot"]
    assert store.read().events == before


def test_a_swapped_body_is_told_by_its_fact(made: Any, directory: Path) -> None:
    """EVT-02: a whole file with another state is served as it is, and the control fact convicts it."""
    store, snapshot = made
    path = path_of(directory, snapshot.id)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b'{"n":1}', b'{"n":7}')))
    assert store.log.snapshots.load(snapshot.id) == b'{"n":7}'
    assert "was changed" in verify(store.log).problems[0].reason


def test_a_file_that_unpacks_to_more_than_was_recorded_is_not_unpacked(made: Any, directory: Path) -> None:
    """LH-12: a few kilobytes that unpack to many megabytes are given up at the size that the control fact says."""
    store, snapshot = made
    path = path_of(directory, snapshot.id)
    document = gzip.decompress(path.read_bytes()).replace(b'{"n":1}', b'{"n":1,"x":"' + b" " * BOMB_BYTES + b'"}')
    path.write_bytes(gzip.compress(document))
    del document
    assert path.stat().st_size < BOMB_BYTES // 900
    tracemalloc.start()
    try:
        problems = verify(store.log).problems
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [problem.what for problem in problems] == ["snapshot"]
    assert peak < BOMB_BYTES // 4


def test_a_file_that_no_commit_names_is_no_snapshot(made: Any, opened: Any, directory: Path) -> None:
    """EVT-02: a forged or left-over file counts for nothing; the next writer removes it, a reader never does."""
    store, snapshot = made
    forged = path_of(directory, bytes(15) + b"\1")
    forged.write_bytes(path_of(directory, snapshot.id).read_bytes())
    half = directory / "snapshots" / f"{ids.to_text(bytes(16))}.snap.7.tmp"
    half.write_bytes(b"half")
    (directory / "snapshots" / "notes.txt").write_text("not ours")
    assert store.log.snapshots.ids() == [snapshot.id]
    assert store.log.snapshots.load(bytes(15) + b"\1") is None
    assert sorted(store.report().facts["snapshot_orphans"]) == sorted([forged.name, half.name])
    store.close()
    opened(readonly=True)
    assert forged.exists()
    again = opened()
    assert sorted(path.name for path in (directory / "snapshots").iterdir()) == sorted(
        [path_of(directory, snapshot.id).name, "notes.txt"]
    )
    assert "removed 2 snapshot files" in " ".join(again.report().recovered)
    assert verify(again.log).ok


def test_a_dropped_file_is_gone_from_the_disk(made: Any, directory: Path) -> None:
    """LH-14: dropping gives the room back, and the figures show it."""
    store, snapshot = made
    facts = store.report().facts
    assert (facts["snapshots"], facts["snapshot_bytes"]) == (1, path_of(directory, snapshot.id).stat().st_size)
    upkeep.drop(store, snapshot)
    assert list((directory / "snapshots").iterdir()) == []
    assert store.report().facts["snapshot_bytes"] == 0


def test_a_refused_commit_leaves_no_file(made: Any, directory: Path) -> None:
    """EVT-02, EVT-11: neither under its name nor under a temporary one."""
    store, _ = made
    other = upkeep.snapshot_of(store, "order/1", BODY)
    before = list((directory / "snapshots").iterdir())
    with pytest.raises(errors.Conflict):
        store.record(
            [upkeep.snapshot_fact(other)], require=[("order/1", 1)], maintenance=Maintenance(snapshots=(other,))
        )
    assert list((directory / "snapshots").iterdir()) == before


def test_a_reader_writes_no_file(made: Any, opened: Any, directory: Path) -> None:
    """LH-12: a read-only log refuses a snapshot before anything is written."""
    store, _ = made
    before = list((directory / "snapshots").iterdir())
    reader = opened(readonly=True)
    other = upkeep.snapshot_of(store, "order/1", BODY)
    with pytest.raises(errors.ReadOnly):
        reader.record([upkeep.snapshot_fact(other)], maintenance=Maintenance(snapshots=(other,)))
    assert list((directory / "snapshots").iterdir()) == before


def test_a_reader_sees_snapshots_come_and_go(made: Any, opened: Any) -> None:
    """LH-12: a reader of another process has each snapshot with the commit that made it."""
    store, first = made
    reader = opened(readonly=True)
    assert reader.log.snapshots.load(first.id) == BODY
    second = upkeep.snapshot(store, "order/1", b'{"n":2}')
    assert reader.log.snapshots.load(second.id) == b'{"n":2}'
    upkeep.drop(store, first)
    assert reader.log.snapshots.ids() == [second.id]
    assert reader.log.snapshots.load(first.id) is None


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
@pytest.mark.parametrize("error", sorted(FULL), ids=errno.errorcode.__getitem__)
def test_no_room_for_a_snapshot_refuses_it_alone(opened: Any, directory: Path, operation: str, error: int) -> None:
    """LH-16: the snapshot is refused with NoSpace and leaves nothing; appends work, and snapshots with room."""
    files = FaultyFileSystem(Disk())
    store = opened(filesystem=files)
    store.append("order/1", events(3))
    files.inject(Fault(operation=operation, error=error, persistent=True, path_part="/snapshots/"))
    with pytest.raises(errors.NoSpace):
        upkeep.snapshot(store, "order/1", BODY)
    assert files.fired
    assert store.append("order/1", events(1)).seq == 4
    assert list((directory / "snapshots").iterdir()) == []
    files.inject(None)
    made = upkeep.snapshot(store, "order/1", BODY)
    assert store.log.snapshots.ids() == [made.id]
    assert verify(store.log).ok


def test_no_room_for_the_frame_takes_the_snapshot_back(opened: Any, directory: Path) -> None:
    """LH-16: the file was whole and in place, but the commit had no room: neither stays, and everything works again."""
    files = FaultyFileSystem(Disk())
    store = opened(filesystem=files)
    store.append("order/1", events(3))
    made, cut = upkeep.snapshot_of(store, "order/1", BODY), upkeep.cut_of(store, "order/1", 2)
    facts = [upkeep.snapshot_fact(made), upkeep.pruned_fact(cut)]
    both = Maintenance(snapshots=(made,), cuts=(cut,))
    files.inject(Fault(operation="write", error=errno.ENOSPC, persistent=True, path_part="current.log"))
    with pytest.raises(errors.NoSpace):
        store.record(facts, maintenance=both)
    assert list((directory / "snapshots").iterdir()) == []
    assert (store.cut("order/1"), store.log.snapshots.ids()) == (None, [])
    assert len(store.read().events) == 3
    files.inject(None)
    store.record(facts, maintenance=both)
    assert (store.cut("order/1"), store.log.snapshots.ids()) == (cut, [made.id])
    store.close()
    assert verify(opened().log).ok


def test_one_that_finds_no_room_does_not_hold_up_the_others_of_its_group(opened: Any) -> None:
    """LH-16: of transactions that are submitted together only the snapshot is refused."""
    files = FaultyFileSystem(Disk())
    store = opened(filesystem=files)
    store.append("order/1", events(1))
    made = upkeep.snapshot_of(store, "order/1", BODY)
    about, fact = upkeep.snapshot_fact(made)
    files.inject(Fault(operation="write", error=errno.ENOSPC, persistent=True, path_part="/snapshots/"))
    with pytest.raises(errors.NoSpace):
        store.record([(about, fact)], maintenance=Maintenance(snapshots=(made,)))
    outcomes = store.submit([Request([Part("order/2", events(1))]), Request([Part("order/3", events(2))])])
    assert all(isinstance(outcome, list) for outcome in outcomes)


def test_appends_do_not_wait_for_a_snapshot_to_be_packed(opened: Any, hooked: Any) -> None:
    """LH-12: while the file of a large state is written, other threads append."""
    store = opened(filesystem=hooked)
    store.append("order/1", events(1))
    done: list[int] = []

    def meanwhile(operation: str, path: str) -> bool:
        if operation != "create" or "/snapshots/" not in path:
            return True
        other = threading.Thread(target=lambda: done.append(store.append("order/2", events(1)).seq))
        other.start()
        other.join(10)
        return False

    hooked.before = meanwhile
    upkeep.snapshot(store, "order/1", BODY)
    assert done == [1]


def test_a_snapshot_made_twice_is_one(made: Any) -> None:
    """EVT-02: a retry after an unknown outcome, with the same id, finds it done; its file is not exchanged."""
    store, snapshot = made
    store.record([upkeep.snapshot_fact(snapshot)], maintenance=Maintenance(snapshots=(snapshot,)))
    assert store.log.snapshots.ids() == [snapshot.id]
    assert store.log.snapshots.load(snapshot.id) == BODY
    assert verify(store.log).ok


def test_a_large_state_takes_little_memory(tmp_path: Path) -> None:
    """LH-18: a body of 50 MB is written and loaded with less than 300 MB of other memory."""
    script = f"""
import resource, tallystick
from tallystick.engines.files.snapshots import name_of
from tallystick.testing import upkeep
from tallystick.testing.builders import events
store = tallystick.open("files:{tmp_path}/log")
store.append("order/1", events(1))
text = b"".join(b"%x" % (n * 2654435761 % 4294967296) for n in range({LARGE_BYTES} // 8))
body = b'{{"text":"' + text + b'"}}'
del text
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024
def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) * 1024
before = resident()
made = upkeep.snapshot(store, "order/1", body)
assert store.log.snapshots.load(made.id) == body
print(len(body), peak() - before)
"""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the peak of memory is read from /proc: run on Linux")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    size, extra = map(int, done.stdout.split())
    assert size > LARGE_BYTES * 0.9
    assert extra < EXTRA_BYTES_MAX


def test_a_file_says_what_it_covers_and_when_it_was_made(opened: Any, directory: Path) -> None:
    """LH-12, LH-13: the last event and its seq, the base of a difference and the events since, the time in the name."""
    store = opened()
    store.append("order/1", [NewEvent("order.paid", {"cents": number}) for number in range(50)])
    item = state.as_reducer(Ledger)
    base = state.make(store, item, "order/1")
    last = store.append("order/1", NewEvent("order.paid", {"cents": 1}))
    diff = state.make(store, item, "order/1")
    assert base is not None
    assert diff is not None
    document = json.loads(gzip.decompress(path_of(directory, diff.id).read_bytes()))
    event = store.read_stream("order/1", after=50, limit=1)[0]
    assert (document["last_event_id"], document["last_sequence"]) == (ids.to_text(event.id), last.last_seq)
    assert (document["kind"], document["base_snapshot_id"]) == ("diff", ids.to_text(base.id))
    assert document["events_since_base"] == 1
    moment, _, name = path_of(directory, diff.id).name.rpartition("_")
    named = calendar.timegm(time.strptime(moment, "%Y-%m-%d_%H-%M-%S"))
    # ids never go back, so after an event of the future the name is that event's time
    assert diff.made // 10**9 <= named <= int.from_bytes(diff.id[:6], "big") // 1000
    assert name == f"{ids.to_text(diff.id)}.snap"
    store.append("order/1", NewEvent("order.paid", {"cents": 2}))
    assert state.fold(store, item, "order/1").event_id != event.id
    assert state.fold(store, item, "order/1", until=state.Until(seq=51)).event_id == event.id


class Ledger:
    """Keeps every amount, so that a difference is small."""

    name, version = "ledger", 1

    def initial(self) -> Any:
        return {}

    def apply(self, value: Any, event: Any) -> Any:
        return value | {str(event.seq): event.data["cents"]}


def test_a_file_with_the_name_of_before_is_read_and_not_an_orphan(made: Any, opened: Any, directory: Path) -> None:
    """LH-12: a log of an earlier version keeps its snapshots, and can drop them."""
    store, snapshot = made
    store.close()
    older = directory / "snapshots" / f"{ids.to_text(snapshot.id)}.snap"
    path_of(directory, snapshot.id).rename(older)
    again = opened()
    assert again.log.snapshots.load(snapshot.id) == BODY
    assert again.log.snapshots.size() == older.stat().st_size
    assert again.report().facts["snapshot_orphans"] == []
    upkeep.drop(again, snapshot)
    assert not older.exists()
