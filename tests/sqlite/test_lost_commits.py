"""Acknowledged commits that are missing: every opening reports them, and no position is assigned twice."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import tallystick
from tallystick import errors
from tallystick.engines.sqlite import mark
from tallystick.store.repair import repair
from tallystick.store.verify import examine, verify
from tallystick.testing import upkeep

EVENTS = 40
PAGE = 4096
FRAME = PAGE + 24
_WRITE_AND_DIE = """
import os, signal, sys, tallystick
store = tallystick.open("sqlite:" + sys.argv[1])
for number in range(int(sys.argv[2])):
    store.append("order/a", tallystick.NewEvent("thing.done", {"n": number, "text": "x" * 700}))
os.kill(os.getpid(), signal.SIGKILL)
"""

_SAVE_AND_DIE = """
import os, shutil, signal, sys, tallystick
store = tallystick.open("sqlite:" + sys.argv[1])
store.append("order/a", tallystick.NewEvent("thing.done", {}))
store.save_checkpoint("mailer", 0)
shutil.copy(sys.argv[1] + "-wal", sys.argv[1] + "-wal.older")
store.save_checkpoint("mailer", 1, previous=0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(path: str, spawn: Callable[..., object]) -> str:
    """A store whose writer was killed after its last acknowledgement."""
    _write_and_die(path, spawn)
    return path


def _write_and_die(path: str, spawn: Callable[..., object], events: int = EVENTS) -> None:
    child = spawn(_WRITE_AND_DIE, path, str(events))
    assert child.wait(60) == -signal.SIGKILL, child.stderr.read()  # type: ignore[attr-defined]


def _flip(path: str, byte: int) -> None:
    with open(path, "r+b") as file:
        file.seek(byte)
        (old,) = file.read(1)
        file.seek(byte)
        file.write(bytes([old ^ 4]))


def _contents(path: str) -> dict[str, bytes]:
    """The files of the store that are not empty, without shared memory."""
    found = {item.name: item.read_bytes() for item in Path(path).parent.iterdir() if item.is_file()}
    return {name: content for name, content in found.items() if content and not name.endswith(("-shm", ".damage"))}


def _require_refusal(path: str, *, last: int = EVENTS) -> int:
    """Require that both ways of opening report the lost end and change nothing. Returns the last event served."""
    before = _contents(path)
    for readonly in (True, False, False):
        with tallystick.open(f"sqlite:{path}", readonly=readonly) as store:
            assert store.head() == last
            hole = store.holes()[-1]
            assert hole.last == last
            with pytest.raises(errors.Damaged):
                list(store.events())
            with pytest.raises(errors.Damaged):
                store.stream_head("order/a")
            with pytest.raises(errors.Damaged):
                store.read_stream("order/a", after=hole.first - 1)
            with pytest.raises(errors.Damaged):
                store.find(os.urandom(16))
            with pytest.raises(errors.ReadOnly if readonly else errors.Damaged):
                store.append("order/a", tallystick.NewEvent("thing.done", {}))
            with pytest.raises(errors.Damaged):
                store.load_checkpoint("mailer")
            assert not verify(store.log).ok
            served = store.read(until=hole.first - 1).events
            assert [event.position for event in served] == list(range(1, hole.first))
    assert _contents(path) == before
    return hole.first - 1


@pytest.mark.security
@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.5, 0.8, 0.97, 0.999])
def test_a_flipped_bit_in_the_log_of_a_killed_writer_is_named(killed: str, part: float) -> None:
    """SAFE-01, SAFE-04: anywhere, also in the newest commit. SQLite itself would silently drop what follows."""
    size = os.path.getsize(f"{killed}-wal")
    frames = (size - 32) // FRAME
    _flip(f"{killed}-wal", 32 + int(part * frames) * FRAME + 24 + PAGE // 2)
    _require_refusal(killed)


@pytest.mark.security
@pytest.mark.parametrize("byte", [0, 9, 17, 25, 32 + 4, 32 + 9, 32 + 17])
def test_a_flipped_bit_in_a_header_of_the_log_is_named(killed: str, byte: int) -> None:
    """SAFE-01: SQLite treats a log with a damaged header as empty."""
    _flip(f"{killed}-wal", byte)
    _require_refusal(killed)


@pytest.mark.security
@pytest.mark.parametrize("left", [None, 0, 20, 32, 32 + FRAME * 30, -1, -FRAME])
def test_a_log_that_was_removed_or_cut_is_named(killed: str, left: int | None) -> None:
    """SAFE-01: the mark says how far the log went. A truncated log has no trace of its lost end."""
    log = f"{killed}-wal"
    if left is None:
        os.unlink(log)
    else:
        os.truncate(log, left if left >= 0 else os.path.getsize(log) + left)
    _require_refusal(killed)


@pytest.mark.security
def test_a_flip_is_named_without_the_mark(killed: str) -> None:
    """SAFE-01: a commit after the damaged frame shows that it was acknowledged, even without the mark."""
    os.unlink(mark.path_of(killed))
    _flip(f"{killed}-wal", os.path.getsize(f"{killed}-wal") // 2)
    with tallystick.open(f"sqlite:{killed}") as store:
        (hole,) = store.holes()
        assert "commits follow after that frame" in hole.reason
        with pytest.raises(errors.Damaged):
            list(store.events())


@pytest.mark.security
def test_an_older_copy_in_its_place_is_named(path: str, spawn: Callable[..., object]) -> None:
    """SAFE-01: a file that was set back to an earlier state lost acknowledged events, whatever the cause."""
    _write_and_die(path, spawn, 10)
    tallystick.open(f"sqlite:{path}").close()
    shutil.copyfile(path, f"{path}.old")
    with tallystick.open(f"sqlite:{path}") as store:
        store.append("order/a", [tallystick.NewEvent("thing.done", {})] * 5)
    os.replace(f"{path}.old", path)
    assert _require_refusal(path, last=15) == 10


@pytest.mark.security
@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_a_stale_journal_beside_a_good_file_is_not_replayed(
    path: str, spawn: Callable[..., object], suffix: str
) -> None:
    """SAFE-01: SQLite would write old pages over the file. The file is served without the journal."""
    _write_and_die(path, spawn, 10)
    stale = Path(f"{path}-wal").read_bytes()
    with tallystick.open(f"sqlite:{path}") as store:
        store.append("order/a", [tallystick.NewEvent("thing.done", {})] * 5)
    if suffix == "-journal":
        stale = _journal_of(path)
    Path(f"{path}{suffix}").write_bytes(stale)
    before = _contents(path)
    for readonly in (True, False):
        with tallystick.open(f"sqlite:{path}", readonly=readonly) as store:
            assert [event.position for event in store.events()] == list(range(1, 16))
            assert any("does not belong to it" in problem.reason for problem in examine(store.log).problems)
            with pytest.raises(errors.ReadOnly if readonly else errors.Damaged):
                store.append("order/a", tallystick.NewEvent("thing.done", {}))
    assert _contents(path) == before
    os.unlink(f"{path}{suffix}")
    with tallystick.open(f"sqlite:{path}") as store:
        repair(store)
        assert store.append("order/a", tallystick.NewEvent("thing.done", {})).seq == 16


def _journal_of(path: str) -> bytes:
    """A rollback journal with which SQLite would roll a file back."""
    copy = f"{path}.copy"
    shutil.copyfile(path, copy)
    raw = sqlite3.connect(copy, isolation_level=None)
    raw.execute("PRAGMA journal_mode = DELETE")
    raw.execute("PRAGMA cache_size = 1")
    raw.execute("BEGIN IMMEDIATE")
    raw.execute("UPDATE sqlite_sequence SET seq = 1")
    raw.execute("CREATE TABLE other (text)")
    raw.executemany("INSERT INTO other VALUES (?)", [("x" * 2000,)] * 50)
    content = Path(f"{copy}-journal").read_bytes()
    raw.execute("ROLLBACK")
    raw.close()
    os.unlink(copy)
    assert content[0]
    return content


def test_a_torn_last_commit_is_kept_and_reported(killed: str) -> None:
    """LH-19: a commit that the mark does not know may be torn: the log is set aside, and appends continue."""
    log = f"{killed}-wal"
    _flip(log, os.path.getsize(log) - FRAME - PAGE // 2)
    with open(mark.path_of(killed), "r+b") as file:  # as if the power had been lost before the mark was written
        known = mark.decode(file.read())
        assert known is not None
        file.seek(0)
        file.write(mark.encode(mark.StoreMark(known.store_id, EVENTS - 1, True)))
    damaged = Path(log).read_bytes()
    with tallystick.open(f"sqlite:{killed}") as store:
        assert "was not complete" in " ".join(store.report().recovered)
        assert store.append("order/a", tallystick.NewEvent("thing.done", {})).position == EVENTS
        assert verify(store.log).ok
    (kept,) = Path(killed).parent.glob("*.torn-*")
    assert kept.read_bytes() == damaged
    with tallystick.open(f"sqlite:{killed}") as store:
        upkeep.erase(store, "order/a", EVENTS)
        done = store.log.reclaim(compress_before=None, progress=lambda done: None).done
    assert f"removed {kept.name}" in " ".join(done)
    assert not kept.exists()


def test_a_log_that_sqlite_itself_replayed_loses_nothing(killed: str) -> None:
    """Opening the file in SQLite's own shell replays and removes the log: nothing is lost, and the report says so."""
    raw = sqlite3.connect(killed)
    assert raw.execute("SELECT count(*) FROM events").fetchone() == (EVENTS,)
    raw.close()
    assert not os.path.exists(f"{killed}-wal")
    with tallystick.open(f"sqlite:{killed}") as store:
        assert "its write-ahead log is gone: no acknowledged event is missing" in " ".join(store.report().recovered)
        assert store.append("order/a", tallystick.NewEvent("thing.done", {})).seq == EVENTS + 1


def test_a_mark_that_is_missing_or_of_another_store_is_replaced(killed: str, tmp_path: Path) -> None:
    """The mark is not part of the log: without it the store opens, and gets a new one."""
    other = tmp_path / "other.db"
    with tallystick.open(f"sqlite:{other}") as store:
        store.append("order/a", [tallystick.NewEvent("thing.done", {})] * 90)
    os.replace(mark.path_of(str(other)), mark.path_of(killed))
    with tallystick.open(f"sqlite:{killed}") as store:
        assert store.append("order/a", tallystick.NewEvent("thing.done", {})).position == EVENTS + 1
    known = mark.load(killed)
    assert known is not None
    assert (known.head, known.is_open, known.store_id) == (EVENTS + 1, False, store.log.store_id)


def test_an_append_without_its_mark_is_not_acknowledged(reopen: Callable[..., tallystick.Store]) -> None:
    """SAFE-04: an append that is not in the mark is not acknowledged. A retry with the same ids is safe."""
    store = reopen()
    store.append("order/a", tallystick.NewEvent("thing.done", {}))
    store.log._opened.locks.mark._file.close()
    with pytest.raises(errors.StoreFailed, match="mark"):
        store.append("order/a", tallystick.NewEvent("thing.done", {}))


@pytest.mark.parametrize("how", ["flipped", "removed", "stale"])
def test_a_refill_of_lost_commits_is_refused(path: str, spawn: Callable[..., object], tmp_path: Path, how: str) -> None:
    """SAFE-02: nobody else has the leases, checkpoints and commands of lost commits. The rest is not changed."""
    _write_and_die(path, spawn, 10)
    stale = Path(f"{path}-wal").read_bytes()
    if how == "stale":
        tallystick.open(f"sqlite:{path}").close()
    with (
        tallystick.open(f"sqlite:{path}", readonly=True) as store,
        tallystick.open(f"files:{tmp_path}/donor/copy") as copy,
    ):
        for event in store.events():
            copy.append(event.stream, tallystick.NewEvent(event.type, event.data, id=event.id, time=event.time))
    if how == "flipped":
        _flip(f"{path}-wal", len(stale) // 2)
    elif how == "removed":
        os.unlink(f"{path}-wal")
    else:
        Path(f"{path}-wal").write_bytes(stale)
    before = _contents(path)
    with pytest.raises(errors.RefillRefused, match="replace it with a complete copy"):
        tallystick.refill(f"sqlite:{path}", f"files:{tmp_path}/donor/copy")
    assert _contents(path) == before


@pytest.mark.parametrize("how", ["flipped at its end", "replaced by an older one", "as it was left"])
def test_commits_without_events_that_may_be_lost_are_named(path: str, spawn: Callable[..., object], how: str) -> None:
    """SAFE-02: the mark counts events, so checkpoints saved after the last one can be lost. The report says so."""
    child = spawn(_SAVE_AND_DIE, path)
    assert child.wait(60) == -signal.SIGKILL, child.stderr.read()  # type: ignore[attr-defined]
    log = f"{path}-wal"
    if how == "replaced by an older one":
        shutil.copy(f"{log}.older", log)
    elif how == "flipped at its end":
        _flip(log, os.path.getsize(log) - 100)
    with tallystick.open(f"sqlite:{path}") as store:
        assert store.head() == 1
        said = " ".join(store.report().recovered)
        assert "checkpoints, leases and rows that were saved after the last event may be lost" in said
        assert store.load_checkpoint("mailer") is not None
