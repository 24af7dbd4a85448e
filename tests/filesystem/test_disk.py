"""What only the real file system can show: links, devices, other processes, and what differs between systems."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick import errors
from tallystick.engines import disk
from tallystick.engines.disk import Disk, SeekingFile, full_sync

HOLDER = """
import sys, time
from tallystick.engines.disk import Disk
lock = Disk().lock(sys.argv[1])
print("held", flush=True)
time.sleep(600)
"""


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """LH-10: a symbolic link in the place of a file is refused, for reading, writing and creating."""
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for opening in (Disk().open_read, Disk().open_write, Disk().create):
        with pytest.raises(OSError):
            opening(f"{tmp_path}/link")
    assert (tmp_path / "target").read_bytes() == b"precious"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    """LH-10: a FIFO in the place of a file is refused at once, though its other end is not open."""
    os.mkfifo(tmp_path / "fifo")
    for opening in (Disk().open_read, Disk().open_write, Disk().create):
        with pytest.raises(OSError):
            opening(f"{tmp_path}/fifo")


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="there are no device files here")
def test_a_device_is_refused() -> None:
    """LH-10: a device in the place of a file is refused, and the refusal leaks no descriptor."""
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for opening in (Disk().open_read, Disk().open_write, Disk().create):
        with pytest.raises(OSError, match="not a regular file"):
            opening("/dev/null")
    assert not before or len(os.listdir("/proc/self/fd")) == before


def test_files_and_directories_are_private(tmp_path: Path) -> None:
    """Only the owner can read what a store creates."""
    Disk().make_dir(f"{tmp_path}/d")
    Disk().create(f"{tmp_path}/d/f").close()
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE((tmp_path / "d" / "f").stat().st_mode) & 0o077 == 0


def test_a_lock_of_another_process_names_its_pid_and_is_free_after_a_kill(tmp_path: Path) -> None:
    """LH-10: a lock held elsewhere names the holder's pid, and SIGKILL frees it though the text stays."""
    path = f"{tmp_path}/lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(errors.StoreLocked) as caught:
            Disk().lock(path)
        assert caught.value.owner == f"pid {holder.pid}"
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    assert f"pid {holder.pid}" in Path(path).read_text()
    lock = Disk().lock(path)
    assert Path(path).read_text() == f"pid {os.getpid()}\n"
    lock.release()


def test_a_sync_goes_through_the_drive_cache_on_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-10: on macOS a sync is F_FULLFSYNC, because fsync there stops at the drive's cache."""
    import fcntl

    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, command: calls.append((descriptor, command)))
    full_sync(17)
    assert calls == [(17, 51)]


def test_a_sync_is_fsync_where_there_is_no_fdatasync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-10: without fdatasync (Windows) a sync is an fsync of the same descriptor."""
    calls: list[int] = []
    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(os, "fsync", calls.append)
    full_sync(17)
    assert calls == [17]


def test_a_directory_is_synced_by_its_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-10: sync_dir is an fsync of the directory itself, and is left out where a directory cannot be opened."""
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode)))
    Disk().sync_dir(str(tmp_path))
    assert synced == [True]
    monkeypatch.setattr(disk, "WINDOWS", True)
    Disk().sync_dir(str(tmp_path))
    assert synced == [True]


def test_a_new_directory_is_made_durable_in_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-10: making a directory syncs its parent, for every directory made."""
    synced: list[str] = []
    monkeypatch.setattr(Disk, "sync_dir", lambda self, path: synced.append(path))
    Disk().make_dir(f"{tmp_path}/a/b")
    assert synced == [str(tmp_path), f"{tmp_path}/a"]


def test_a_file_without_positioned_calls_reads_and_writes_by_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LH-10: where the system has no pread (Windows) the same port works by seeking."""
    monkeypatch.delattr(os, "pread")
    file = Disk().create(f"{tmp_path}/f")
    assert isinstance(file, SeekingFile)
    file.write_at(0, b"hello world")
    file.write_at(6, b"there")
    assert file.read_at(6, 100) == b"there"
    assert file.read_at(0, 5) == b"hello"
    assert file.read_at(11, 1) == b""
    file.truncate(5)
    file.sync()
    assert file.size() == 5
    file.close()
