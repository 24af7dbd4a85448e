"""The lock of a store where there is no flock(2): bytes locked by `msvcrt.locking`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tallystick
from tallystick import errors
from tallystick.engines.disk import Disk, SeekingFile

HOLDER = """
import sys, time
from tallystick.engines.disk import Disk
lock = Disk().lock(sys.argv[1])
print("held", flush=True)
time.sleep(600)
"""


def test_a_lock_of_another_process_names_its_pid_and_is_free_after_a_kill(tmp_path: Path) -> None:
    """LH-10: the locked byte is after the text, so that others can read who holds the lock."""
    path = f"{tmp_path}/lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(errors.StoreLocked) as caught:
            Disk().lock(path)
        assert caught.value.owner == f"pid {holder.pid}"
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    lock = Disk().lock(path)
    assert Path(path).read_text() == f"pid {os.getpid()}\n"
    with pytest.raises(errors.StoreLocked, match=str(os.getpid())):
        Disk().lock(path)
    lock.release()
    Disk().lock(path).release()


def test_a_store_has_one_writer(tmp_path: Path) -> None:
    """LH-10: the lock of a log is this one, and the files are read and written by seeking."""
    with tallystick.open(f"files:{tmp_path}/log") as store:
        assert isinstance(store.log._writer._file, SeekingFile)
        with pytest.raises(errors.StoreLocked, match=f"pid {os.getpid()}"):
            tallystick.open(f"files:{tmp_path}/log")
    tallystick.open(f"files:{tmp_path}/log").close()


def test_what_is_open_keeps_its_name(tmp_path: Path) -> None:
    """LH-10: the stand-in refuses what Windows refuses: for any open file, and the target of a rename."""
    one, other = f"{tmp_path}/one", f"{tmp_path}/other"
    for path in (one, other):
        Path(path).write_bytes(b"x")
    for path in (one, other):
        with open(path, "rb"):
            with pytest.raises(PermissionError):
                Disk().rename(one, other)
            with pytest.raises(PermissionError):
                Disk().unlink(path)
    Disk().rename(one, other)
    Disk().unlink(other)
