"""The bytes on disk: erased payloads are gone, space is returned, and readers continue."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import threading
from pathlib import Path

import pytest

from tallystick import NewEvent, errors
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.maintenance import Maintenance
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import upkeep

SIZES = (0, 60, 400, 1500, 6000)
_READ = """
import sys, tallystick
store = tallystick.open("sqlite:" + sys.argv[1], readonly=True)
print("ready", flush=True)
for line in sys.stdin:
    floor = store.floor()
    seqs = [event.seq for event in store.events(after=floor) if event.stream == "order/keep"]
    print(*seqs, flush=True)
"""


def _on_disk(path: str) -> bytes:
    """All bytes of the store. Read by another process: closing a file here would drop SQLite's locks on it."""
    files = sorted(str(file) for file in Path(path).parent.iterdir())
    return subprocess.run(["cat", *files], capture_output=True, check=True).stdout


def _reclaim(store):
    return store.log.reclaim(compress_before=None, progress=lambda done: None)


def _secret(number: int, size: int) -> NewEvent:
    return NewEvent("thing.told", {"text": f"secret-{number:06d}-" + "x" * size})


@pytest.mark.parametrize("size", [10, 3000, 60_000], ids=["in a page", "most of a page", "over many pages"])
def test_an_erased_payload_is_gone_from_every_file(store, path, size):
    """EVT-14: when the commit has returned, neither the database nor its write-ahead log has the payload."""
    store.append("order/a", [_secret(number, size) for number in range(5)])
    assert b"secret-000002-" in _on_disk(path)
    upkeep.erase(store, "order/a", 3)
    assert b"secret-000002-" not in _on_disk(path)
    assert b"secret-000003-" in _on_disk(path)
    assert store.report().facts["erased_in_wal"] is False


def test_responses_and_snapshots_that_go_with_an_erasure_are_gone_too(store, path):
    """Settled 25: data that the same commit dropped or forgot is gone from the disk as well."""
    command = CommandRecord(CommandKey("acme", "u", "e", "k"), b"h" * 32, b'{"echo":"secret-response"}', 1)
    store.submit([Request([Part("order/a", [_secret(1, 50)])], command=command)])
    made = upkeep.snapshot(store, "order/a", b'{"state":"secret-state"}')
    erasure = upkeep.erasure_of(store.read_stream("order/a")[0])
    dropped = Maintenance(erasures=(erasure,), dropped_snapshots=(made.id,), erased_responses=(command.key,))
    assert _on_disk(path).count(b"secret-") >= 3
    store.record([upkeep.erased_fact(erasure)], maintenance=dropped)
    assert _on_disk(path).count(b"secret-") == 0


@pytest.mark.parametrize("seed", range(6))
def test_nothing_erased_is_left_after_reclaiming(store, path, seed):
    """EVT-14: over random histories of appends, prunes and erasures no trace of a payload is left in any page."""
    dice = random.Random(seed)
    told, gone = {}, []
    for _ in range(50):
        stream = f"order/{dice.randrange(4)}"
        first = len(told) + len(gone)
        events = [_secret(first + offset, dice.choice(SIZES)) for offset in range(dice.randrange(1, 8))]
        done = store.append(stream, events)
        told |= {(stream, done.first_seq + offset): first + offset for offset in range(len(events))}
        if dice.random() < 0.4:
            place = dice.choice(sorted(told))
            upkeep.erase(store, *place)
            gone.append(told.pop(place))
        cut = store.cut(stream)
        if dice.random() < 0.3 and (cut.through if cut else 0) < done.last_seq - 2:
            upkeep.prune(store, stream, done.last_seq - 2)
            pruned = [place for place in told if place[0] == stream and place[1] <= done.last_seq - 2]
            gone += [told.pop(place) for place in pruned]
    upkeep.erase(store, *min(told))
    gone.append(told.pop(min(told)))
    _reclaim(store)
    content = _on_disk(path)
    assert [number for number in gone if b"secret-%06d-" % number in content] == []
    assert all(b"secret-%06d-" % number in content for number in told.values())
    assert verify(store.log).problems == []


def test_a_reader_that_keeps_an_erased_payload_is_reported(store, reopen, path):
    """EVT-14: while a reader keeps the payload in the write-ahead log, report and reclaim say so."""
    store.append("order/a", [_secret(1, 50)])
    reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
    upkeep.erase(store, "order/a", 1)
    facts = store.report().facts
    assert (facts["erased_in_wal"], facts["erasures_to_sweep"]) == (True, 1)
    patient = reopen(busy_ms=50)
    assert "a reader holds" in _reclaim(patient).done[-1]
    assert store.report().facts["erasures_to_sweep"] == 1
    assert b"secret-000001" in reader.execute("SELECT payload FROM events").fetchone()[0]
    reader.close()
    assert "swept out" in _reclaim(store).done[-1]
    assert b"secret-000001-" not in _on_disk(path)
    facts = store.report().facts
    assert (facts["erased_in_wal"], facts["erasures_to_sweep"]) == (False, 0)


def test_space_of_pruned_events_is_returned(store, path):
    """EVT-03: after a prune of most events the file shrinks. Positions, seqs and ids continue."""
    store.append("order/a", [_secret(number, 3000) for number in range(1000)])
    before = store.read_stream("order/a", after=900)
    upkeep.prune(store, "order/a", 900)
    done = _reclaim(store)
    assert done.bytes_after < done.bytes_before / 3
    assert done.bytes_after == Path(path).stat().st_size + Path(f"{path}-wal").stat().st_size
    assert store.read_stream("order/a", after=900) == before
    assert store.append("order/a", _secret(1, 1)).position == 1002
    assert verify(store.log).problems == []


def test_a_position_is_never_assigned_twice(store, reopen, some):
    """EVT-01: not even after everything was pruned and reclaimed and the store was opened again."""
    store.append("order/a", some(5))
    store.append("order/b", some(1))
    upkeep.erase(store, "order/b", 1)
    upkeep.prune(store, "order/a", 5)
    assert _reclaim(store).done
    head = store.head()
    store.close()
    again = reopen()
    assert again.head() == head
    assert again.append("order/c", some(1)).position == head + 1


def test_little_is_not_rewritten(store, some):
    """A file that is nearly full, and from which nothing was erased, is left as it is."""
    store.append("order/a", some(50))
    upkeep.prune(store, "order/a", 10)
    assert _reclaim(store).done == ()


def test_a_full_disk_refuses_a_rewrite(store, some, monkeypatch):
    """LH-16: a rewrite without enough space is refused, and nothing changes."""
    store.append("order/a", some(3))
    upkeep.erase(store, "order/a", 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(1, 1, 0))
    with pytest.raises(errors.NoSpace):
        _reclaim(store)
    monkeypatch.undo()
    assert store.append("order/a", some(1)).seq == 4
    assert verify(store.log).problems == []


def test_readers_in_another_process_continue(store, path, spawn):
    """EVT-06: during prunes, erasures and rewrites a reader in another process sees every event that is left."""
    store.append("order/keep", [_secret(0, 10)])
    child = spawn(_READ, path)
    assert child.stdout.readline() == "ready\n"
    for round_ in range(6):
        store.append("order/a", [_secret(number, 2000) for number in range(300)])
        upkeep.prune(store, "order/a", 300 * (round_ + 1))
        kept = store.append("order/keep", [_secret(0, 10)]).first_seq
        upkeep.erase(store, "order/keep", kept)
        assert _reclaim(store).done
        store.append("order/keep", [_secret(0, 10)])
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline().split() == [str(kept), str(kept + 1)]
    assert child.communicate(timeout=60) == ("", "")
    assert child.returncode == 0
    assert verify(store.log).problems == []


def test_other_handles_append_while_one_reclaims(store, reopen, some):
    """Reclaiming takes the write lock for a moment. Another handle waits for it and loses nothing."""
    other = reopen()
    store.append("order/a", [_secret(number, 500) for number in range(2000)])
    upkeep.erase(store, "order/a", 1)
    failures: list[BaseException] = []

    def append() -> None:
        try:
            for _ in range(20):
                other.append("order/b", some(1))
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=append)
    thread.start()
    _reclaim(store)
    thread.join()
    assert failures == []
    assert store.stream_head("order/b").seq == 20
    assert verify(store.log).problems == []


def test_an_erased_payload_is_gone_from_kept_files(store, path):
    """EVT-14: sweeping an erasure removes torn write-ahead logs and damaged files that were kept, and reports it."""
    store.append("order/a", [_secret(number, 50) for number in range(3)])
    content = _on_disk(path)
    kept = [Path(f"{path}-wal.torn-1700000000000000000"), Path(f"{path}.damaged-1700000000000000001")]
    others = [Path(f"{path}-wal.torn-by-hand"), Path(path).with_name("other.db.damaged-17")]
    for file in (*kept, *others):
        file.write_bytes(content if file in kept else b"not ours")
    assert _reclaim(store).done == ()
    assert all(file.exists() for file in kept)
    upkeep.erase(store, "order/a", 2)
    done = " ".join(_reclaim(store).done)
    assert all(f"removed {file.name}" in done for file in kept)
    assert b"secret-000001-" not in _on_disk(path)
    assert all(file.exists() for file in others)


def test_a_kept_file_that_cannot_be_removed_is_named(store, path):
    """EVT-14: an erasure does not count as swept while a file that may have it could not be removed."""
    store.append("order/a", [_secret(1, 50)])
    stuck = Path(f"{path}.damaged-17")
    stuck.mkdir()
    upkeep.erase(store, "order/a", 1)
    assert f"could not remove {stuck.name}" in _reclaim(store).done[-1]
    assert store.report().facts["erasures_to_sweep"] == 1
    stuck.rmdir()
    assert "swept out" in _reclaim(store).done[-1]
    assert store.report().facts["erasures_to_sweep"] == 0
