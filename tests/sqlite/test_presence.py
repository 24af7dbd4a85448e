"""Locks that end with their process show who has the store open, whatever its host name and pid."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.engines.sqlite import locks, mark
from tallystick.store.verify import verify

_HOLD = """
import os, sys, tallystick
store = tallystick.open("sqlite:" + sys.argv[1])
store.append("run/1", tallystick.NewEvent("step.done", {}))
print("held", flush=True)
for line in sys.stdin:
    print(store.append("run/1", tallystick.NewEvent("step.done", {})).seq, flush=True)
"""
_FORK = """
import os, sys, time, tallystick
store = tallystick.open("sqlite:" + sys.argv[1])
store.append("order/a", tallystick.NewEvent("step.done", {}))
child = os.fork()
if child == 0:
    print(os.getpid(), flush=True)
    time.sleep(600)
sys.stdin.readline()
"""
_OPEN = """
import sys, tallystick
try:
    with tallystick.open("sqlite:" + sys.argv[1], readonly=sys.argv[2] == "reading") as store:
        print(len(list(store.events())), "|".join(store.report().recovered))
except tallystick.errors.TallyError as refused:
    print(type(refused).__name__, refused)
"""


def _shell(*options: str, script: str) -> tuple[str, ...]:
    """The start of a command that runs in another namespace, which `script` prepares."""
    return ("unshare", *options, "sh", "-c", f'{script} exec "$@"', "sh")


def _can(*command: str) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


elsewhere = pytest.mark.skipif(
    not _can("unshare", "--mount", "--uts", "--pid", "--fork", "true"), reason="this machine allows no namespaces"
)


def _held(child: Any) -> Any:
    assert child.stdout.readline() == "held\n", child.stderr.read()
    return child


def _kill(child: Any) -> None:
    child.send_signal(signal.SIGKILL)
    child.wait(60)


@pytest.mark.security
@elsewhere
def test_a_crash_on_a_host_of_another_name_is_inspected(path: str, spawn: Any, reopen: Callable[..., Store]) -> None:
    """SAFE-04: a new container has a new host name, and the free lock still shows that the writer is gone."""
    before = _shell("--uts", script="hostname elsewhere;")
    _kill(_held(spawn(_HOLD, path, before=before)))
    os.truncate(f"{path}-wal", os.path.getsize(f"{path}-wal") - 5000)
    store = reopen()
    assert store.holes()
    with pytest.raises(errors.Damaged):
        store.append("run/1", NewEvent("step.done", {}))


@elsewhere
def test_a_run_is_free_after_a_crash_on_a_host_of_another_name(
    path: str, spawn: Any, reopen: Callable[..., Store]
) -> None:
    """EVT-09: a process that has the store to itself knows that every lease is free, on any host."""
    _kill(_held(spawn(_HOLD, path, before=_shell("--uts", script="hostname elsewhere;"))))
    store = reopen()
    assert "did not close" in store.report().recovered[0]
    assert store.append("run/1", NewEvent("step.done", {})).seq == 2


@pytest.mark.security
@elsewhere
def test_a_writer_with_pids_of_its_own_is_alive(path: str, spawn: Any, reopen: Callable[..., Store]) -> None:
    """EVT-09: a container with the same host name has other pids: its writer does not count as dead."""
    child = _held(spawn(_HOLD, path, before=("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")))
    store = reopen()
    assert store.report().recovered == ()
    with pytest.raises(errors.LeaseHeld):
        store.append("run/1", NewEvent("step.done", {}))
    child.stdin.write("append\n")
    child.stdin.flush()
    assert child.stdout.readline() == "2\n"
    assert verify(store.log).ok


def test_a_forked_child_does_not_keep_its_parent_alive(path: str, spawn: Any, reopen: Callable[..., Store]) -> None:
    """SAFE-04: a child that outlives a killed writer does not keep its lock."""
    child = spawn(_FORK, path)
    forked = int(child.stdout.readline())
    _kill(child)
    try:
        assert "did not close" in reopen().report().recovered[0]
    finally:
        os.kill(forked, signal.SIGKILL)


def test_closing_one_handle_leaves_the_others_locked(path: str, spawn: Any, reopen: Callable[..., Store]) -> None:
    """CP-02: a process keeps its locks, and SQLite its own, until its last handle is closed."""
    first, second = reopen(), reopen()
    second.append("order/a", NewEvent("thing.done", {}))
    first.close()
    reopen(readonly=True).close()
    other = spawn(_OPEN, path, "writing")
    assert other.communicate(timeout=60)[0] == "1 \n"
    assert second.append("order/a", NewEvent("thing.done", {})).seq == 2
    second.close()
    assert reopen().report().recovered == ()


@pytest.mark.security
@pytest.mark.parametrize("readonly", [False, True])
def test_a_file_with_two_names_is_refused(path: str, readonly: bool) -> None:
    """SAFE-04: each name would have another write-ahead log, and one of them would be lost."""
    tallystick.open(f"sqlite:{path}").close()
    os.link(path, f"{path}.too")
    for name in (path, f"{path}.too"):
        with pytest.raises(errors.UnknownUrl, match="2 names"):
            tallystick.open(f"sqlite:{name}", readonly=readonly)
    os.unlink(f"{path}.too")
    tallystick.open(f"sqlite:{path}", readonly=readonly).close()


@pytest.mark.security
@elsewhere
@pytest.mark.parametrize("how", ["reading", "writing"])
@pytest.mark.parametrize("end", ["closed", "written", "killed"])
def test_a_file_that_is_mounted_alone_is_refused(path: str, spawn: Any, tmp_path: Path, end: str, how: str) -> None:
    """SAFE-04: its write-ahead log would be visible under one name only, and lost under the other after a kill."""
    child = _held(spawn(_HOLD, path))
    if end == "killed":
        _kill(child)
    elif end == "closed":
        child.communicate(timeout=60)
    place = tmp_path / "mounted here"
    place.mkdir()
    (place / "log.db").touch()
    script = f"mount --bind {path} '{place}/log.db';"
    other = spawn(_OPEN, f"{place}/log.db", how, before=_shell("--mount", script=script))
    said, wrong = other.communicate(timeout=60)
    assert said.startswith("UnknownUrl"), (said, wrong)
    assert "mount its directory" in said
    assert os.listdir(place) == ["log.db"]


@elsewhere
@pytest.mark.parametrize("end", ["closed", "written", "killed"])
def test_a_store_on_a_mount_that_cannot_be_written_is_read(
    path: str, spawn: Any, reopen: Callable[..., Store], tmp_path: Path, end: str
) -> None:
    """EVT-06: reading needs no write access: a closed store, one that is being written, and one after a crash."""
    child = _held(spawn(_HOLD, path))
    if end == "killed":
        _kill(child)
    elif end == "closed":
        child.communicate(timeout=60)
        reopen().close()
    place = tmp_path / "mounted"
    place.mkdir()
    script = f"mount --bind {tmp_path} {place}; mount -o remount,ro,bind {place};"
    for how, said in (("reading", "1 "), ("writing", "ReadFailed")):
        if (end, how) != ("written", "writing"):
            other = spawn(_OPEN, f"{place}/log.db", how, before=_shell("--mount", script=script))
            answer, wrong = other.communicate(timeout=60)
            assert answer.startswith(said), (answer, wrong)


@elsewhere
def test_a_log_that_must_be_replayed_where_nothing_can_be_written_is_refused_by_name(
    path: str, spawn: Any, tmp_path: Path
) -> None:
    """SAFE-05: a copy of a killed store, without shared memory on a read-only mount, is refused with advice."""
    _kill(_held(spawn(_HOLD, path)))
    os.unlink(f"{path}-shm")
    place = tmp_path / "mounted"
    place.mkdir()
    script = f"mount --bind {tmp_path} {place}; mount -o remount,ro,bind {place};"
    other = spawn(_OPEN, f"{place}/log.db", "reading", before=_shell("--mount", script=script))
    answer, wrong = other.communicate(timeout=60)
    assert answer.startswith("ReadFailed"), (answer, wrong)
    assert "copy the store" in answer


def test_a_store_read_without_locks_must_not_change(path: str, reopen: Callable[..., Store]) -> None:
    """SAFE-01: a file that is read without locks must not change. If it does, the read is refused."""
    from tallystick.engines.sqlite.databases import UnlockedDatabase

    with tallystick.open(f"sqlite:{path}") as store:
        store.append("order/a", NewEvent("thing.done", {}))
    still = UnlockedDatabase(path, readonly_reason="", busy_ms=100)
    with still.snapshot() as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)
    with tallystick.open(f"sqlite:{path}") as store:
        store.append("order/a", NewEvent("thing.done", {}))
    with pytest.raises(errors.ReadFailed, match="it changed while it was read"), still.snapshot() as connection:
        connection.execute("SELECT count(*) FROM events").fetchone()
    still.close()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o444])
def test_the_mark_has_the_mode_of_the_file(path: str, mode: int) -> None:
    """EVT-06: a reader needs both. The next opening gives the mark the mode of the file."""
    with tallystick.open(f"sqlite:{path}") as store:
        store.append("order/a", NewEvent("thing.done", {}))
    for now in (mode, 0o600, mode):
        os.chmod(path, now)
        tallystick.open(f"sqlite:{path}").close()
        assert stat.S_IMODE(os.stat(f"{path}.mark").st_mode) == now | 0o600
    os.unlink(f"{path}.mark")
    tallystick.open(f"sqlite:{path}").close()
    assert stat.S_IMODE(os.stat(f"{path}.mark").st_mode) == mode | 0o600


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_reads_a_store_as_its_mode_allows(spawn: Any) -> None:
    """EVT-06: another user's reader opens a closed store, and one that is being written, as the file's mode allows."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o755)
        path = f"{place}/log.db"
        tallystick.open(f"sqlite:{path}").close()
        os.chmod(path, 0o644)
        child = _held(spawn(_HOLD, path))
        assert _read_by_nobody(path) == ["1 "]
        child.communicate(timeout=60)
        tallystick.open(f"sqlite:{path}").close()
        assert _read_by_nobody(path) == ["1 "]


def _read_by_nobody(path: str) -> list[str]:
    """The output of a reader without any rights. It may not be able to import more of Python either."""
    modules = "os, importlib.readers, tallystick.errors, tallystick.engines.sqlite.engine"
    code = f"import {modules}; os.setgid(65534); os.setuid(65534)\n{_OPEN}"
    command = [sys.executable, "-c", code, path, "reading"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()


def test_a_store_opens_on_a_system_without_such_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows SQLite's own locks replace ours: a second handle opens at once, and both write."""
    monkeypatch.setattr(locks, "WINDOWS", True)
    with tallystick.open(f"sqlite:{tmp_path}/log.db") as one, tallystick.open(f"sqlite:{tmp_path}/log.db") as other:
        assert [store.append("order/a", NewEvent("t", {})).seq for store in (one, other, one)] == [1, 2, 3]


def test_the_mark_says_open_from_the_first_commit_to_the_close(tmp_path: Path) -> None:
    """EVT-01: it has the acknowledged head, and never says that a store in use is closed."""
    path = f"{tmp_path}/log.db"
    with tallystick.open(f"sqlite:{path}") as store:
        for head in (0, 1, 2):
            marked = mark.load(path)
            assert marked is not None
            assert (marked.head, marked.is_open, marked.store_id) == (head, True, store.log.store_id)
            store.append("order/a", NewEvent("t", {}))
    closed = mark.load(path)
    assert closed is not None
    assert (closed.head, closed.is_open) == (3, False)
