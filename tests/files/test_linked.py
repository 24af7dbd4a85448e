"""A log whose files have other names: a copy by hard links, a file that is mounted by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tallystick
from tallystick import errors
from tallystick.testing.builders import events

OPEN = """
import sys, tallystick
try:
    with tallystick.open(sys.argv[1], readonly=sys.argv[2] == "reading") as store:
        print(store.head())
except tallystick.errors.TallyError as problem:
    print(type(problem).__name__, problem.message)
"""
CAN_MOUNT = shutil.which("unshare") and subprocess.run(("unshare", "--mount", "true"), check=False).returncode == 0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A closed log with four events and a checkpoint."""
    with tallystick.open(f"files:{tmp_path}/log") as store:
        store.append("run/a", events(4))
        store.save_checkpoint("mailer", 2)
    return tmp_path / "log"


@pytest.mark.security
@pytest.mark.parametrize("name", ["current.log", "synced", "beside.db"])
def test_a_file_that_two_logs_have_is_not_written(log: Path, tmp_path: Path, name: str) -> None:
    """CP-02: what one log appended would stand in the other, and be overwritten there. Reading is allowed."""
    shutil.copytree(log, tmp_path / "copy")
    (tmp_path / "copy" / name).unlink()
    os.link(log / name, tmp_path / "copy" / name)
    for place in (log, tmp_path / "copy"):
        with pytest.raises(errors.UnknownUrl, match=f"{name} has another name"):
            tallystick.open(f"files:{place}")
        with tallystick.open(f"files:{place}", readonly=True) as store:
            assert store.head() == 4
    (log / "new").write_bytes((log / name).read_bytes())
    (log / "new").rename(log / name)
    for place in (log, tmp_path / "copy"):
        with tallystick.open(f"files:{place}") as store:
            assert store.append("run/a", events(1)).position == 5


@pytest.mark.security
@pytest.mark.skipif(not CAN_MOUNT, reason="this machine allows no namespaces")
def test_a_current_log_that_is_mounted_alone_is_not_written(log: Path, tmp_path: Path) -> None:
    """CP-02: the lock next to it is another one."""
    shutil.copytree(log, tmp_path / "a copy")
    target = f"{tmp_path}/a copy"
    script = f'mount --bind {log}/current.log "{target}/current.log"; exec "$@"'
    command = ("unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", OPEN, f"files:{target}")
    wrote = subprocess.run((*command, "writing"), check=True, capture_output=True, text=True).stdout
    assert wrote.startswith("UnknownUrl"), wrote
    assert subprocess.run((*command, "reading"), check=True, capture_output=True, text=True).stdout == "4\n"
