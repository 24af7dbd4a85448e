"""What `sqlite:FILE` may find at its path."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

import tallystick
from tallystick import errors
from tallystick.store import leases
from tallystick.store.verify import verify

_CREATE = """
import sys, tallystick
sys.stdin.readline()
with tallystick.open("sqlite:" + sys.argv[1]) as store:
    store.append("order/" + sys.argv[2], tallystick.NewEvent("thing.done", {}))
    print(store.log.store_id.hex())
"""


def _untouched(path: str, content: bytes) -> bool:
    directory = Path(path).parent
    return Path(path).read_bytes() == content and [entry.name for entry in directory.iterdir()] == [Path(path).name]


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("content", [b"not a database\n" * 100, b"x", b"SQLite format 3\0" + b"\xff" * 4080])
def test_a_file_that_is_not_a_database_is_refused_and_left_alone(path, content, readonly):
    """A file of another kind is not a place for a log."""
    Path(path).write_bytes(content)
    with pytest.raises(errors.UnknownUrl, match="not a SQLite database"):
        tallystick.open(f"sqlite:{path}", readonly=readonly)
    assert _untouched(path, content)


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("readonly", [False, True])
def test_the_database_of_another_program_is_refused_and_left_alone(path, readonly, journal):
    """A database without our application id is not migrated, however empty our tables would be."""
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA journal_mode = {journal}")
    other.execute("CREATE TABLE precious (x)")
    other.close()
    content = Path(path).read_bytes()
    with pytest.raises(errors.UnknownUrl, match="another program"):
        tallystick.open(f"sqlite:{path}", readonly=readonly)
    assert _untouched(path, content)


def test_a_directory_or_a_pipe_is_refused(tmp_path):
    """Only a regular file can be a log; a pipe must not make us wait for its other end."""
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(errors.UnknownUrl, match="not a regular file"):
            tallystick.open(f"sqlite:{place}")


@pytest.mark.parametrize("options", [{"readonly": True}, {"create": False}])
@pytest.mark.parametrize("empty", [False, True])
def test_a_store_is_made_only_when_asked_to(path, options, empty):
    """Without a store, or with an empty file, opening without `create` finds nothing and creates nothing."""
    if empty:
        Path(path).touch()
    with pytest.raises(errors.StoreNotFound):
        tallystick.open(f"sqlite:{path}", **options)
    assert Path(path).exists() == empty
    assert not Path(f"{path}-wal").exists()


def test_a_new_store_is_private(tmp_path, some):
    """Only the owner can read the file, the files next to it, and the directory created for it."""
    path = tmp_path / "new" / "log.db"
    with tallystick.open(f"sqlite:{path}") as store:
        store.append("order/a", some(1))
        modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
        assert modes == dict.fromkeys(("log.db", "log.db-wal", "log.db-shm", "log.db.mark"), 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_clean_close_leaves_the_file_and_its_mark(path, reopen, some):
    """After the last handle closed, the log is one file and its mark, and the next opening has nothing to recover."""
    store = reopen()
    store.append("order/a", some(1))
    store.close()
    assert sorted(os.listdir(Path(path).parent)) == ["log.db", "log.db.mark"]
    assert reopen().report().recovered == ()


def test_an_odd_path_is_only_a_path(tmp_path, some):
    """Characters that mean something in a URI mean nothing in a path."""
    place = tmp_path / "a b?mode=memory&x=%41#frag.db"
    with tallystick.open(f"sqlite:{place}") as store:
        store.append("order/a", some(1))
    assert place.exists()
    with tallystick.open(f"sqlite:{place}", readonly=True) as store:
        assert store.head() == 1


def test_an_interrupted_creation_is_completed(path, reopen, some):
    """A file that has our id but no table yet is completed by the next writer. A reader finds no store."""
    raw = sqlite3.connect(path)
    raw.execute(f"PRAGMA application_id = {0x54414C59}")
    raw.close()
    with pytest.raises(errors.StoreNotFound):
        tallystick.open(f"sqlite:{path}", readonly=True)
    assert reopen().append("order/a", some(1)).position == 1


def test_processes_that_create_a_store_at_once_create_one(path, spawn, reopen):
    """EVT-10: six processes that create the same file end up with one identity and all their events."""
    children = [spawn(_CREATE, path, str(number)) for number in range(6)]
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [child.communicate(timeout=60) for child in children]
    assert {error for _, error in answers} == {""}
    assert len({identity for identity, _ in answers}) == 1
    found = verify(reopen().log)
    assert (found.events, found.problems) == (6, [])


def test_the_profile_is_fixed_when_the_store_is_made(reopen, path):
    """A store keeps its profile; opening it with another one is refused."""
    reopen(profile="run").close()
    assert reopen().log.profile == "run"
    with pytest.raises(errors.InvalidValue):
        tallystick.open(f"sqlite:{path}", profile="plain")


@pytest.mark.parametrize("busy_ms", [-1, 1.5, True, None, 10**9])
def test_a_bound_that_makes_no_sense_is_refused(path, busy_ms):
    """`busy_ms` is a whole number of milliseconds within an hour."""
    with pytest.raises(errors.InvalidValue):
        tallystick.open(f"sqlite:{path}", busy_ms=busy_ms)
    assert not Path(path).exists()


def test_a_busy_store_gives_up_after_its_bound(reopen, path, some):
    """Settled 16: waiting for another writer is bounded, and then nothing was written."""
    store = reopen(busy_ms=50)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(errors.Busy) as busy:
        store.append("order/a", some(1))
    assert busy.value.waited_ms == 50
    other.execute("ROLLBACK")
    other.close()
    assert store.append("order/a", some(1)).position == 1


def test_the_report_names_what_an_operator_asks_for(store, some):
    """The report has the versions, sizes and writers."""
    store.append("order/a", some(3))
    facts = store.report().facts
    assert facts["events_head"] == 3
    assert facts["writers"] == [f"pid {os.getpid()} on {leases.this_host()}"]
    assert facts["wal_bytes"] > 0
    assert facts["pages"] * facts["page_bytes"] >= facts["file_bytes"] > 0
    assert facts.keys() >= {"sqlite", "format", "free_bytes", "pages_free"}
