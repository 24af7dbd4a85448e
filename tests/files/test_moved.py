"""A log whose directory is moved under its writer, or whose names lead elsewhere: nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.store.verify import verify
from tallystick.testing.builders import events

pytestmark = [
    pytest.mark.security,
    pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="a directory cannot be held open here"),
]

SMALL = 1000
OPENER = """
import sys, tallystick
try:
    tallystick.open(sys.argv[1], segment_bytes_max=1000).close()
except tallystick.errors.TallyError as problem:
    print(type(problem).__name__)
"""


def whole(directory: Path, count: int) -> None:
    """The log in a directory holds so many events, and nothing is wrong with it."""
    with tallystick.open(f"files:{directory}") as store:
        assert [item.position for item in store.events()] == list(range(1, count + 1))
        assert verify(store.log).ok


def opened_elsewhere(directory: Path) -> str:
    """What another process gets when it opens the log for writing."""
    command = [sys.executable, "-c", OPENER, f"files:{directory}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def test_a_writer_whose_directory_is_moved_goes_on_in_it(opened: Any, directory: Path) -> None:
    """SAFE-04: two stores, the moved one and a new one in its old place, both whole; neither touches the other."""
    writer = opened(segment_bytes_max=SMALL)
    writer.append("order/1", events(1))
    moved = directory.rename(directory.with_name("moved"))
    with tallystick.open(f"files:{directory}", segment_bytes_max=SMALL) as other:
        for number in range(15):  # both seal again and again
            writer.append("order/1", events(1, first=number))
            other.append("order/2", events(1, first=number))
        assert [item.stream for item in other.events()] == ["order/2"] * 15
        assert [item.stream for item in writer.events()] == ["order/1"] * 16
    assert opened_elsewhere(moved) == "StoreLocked"
    writer.close()
    whole(moved, 16)
    whole(directory, 15)


def test_a_writer_whose_directory_is_replaced_by_a_copy_leaves_the_copy_alone(opened: Any, directory: Path) -> None:
    """SAFE-04: a backup that is put in place under a writer is another log from then on."""
    writer = opened(segment_bytes_max=SMALL)
    for number in range(5):
        writer.append("order/1", events(1, first=number))
    copy = Path(shutil.copytree(directory, directory.with_name("copy")))
    moved = directory.rename(directory.with_name("moved"))
    copy.rename(directory)
    for number in range(15):
        writer.append("order/1", events(1, first=number))
    writer.close()
    whole(moved, 20)
    whole(directory, 5)


def test_what_stands_beside_a_moved_log_is_refused(opened: Any, directory: Path) -> None:
    """SAFE-04: checkpoints and rows are found by name, and would be those of whatever has that name now."""
    writer = opened()
    writer.append("order/1", events(3))
    writer.save_checkpoint("mailer", 2)
    directory.rename(directory.with_name("moved"))
    with tallystick.open(f"files:{directory}") as other:
        other.append("order/1", events(5))
        other.save_checkpoint("mailer", 5)
        with pytest.raises(errors.ReadFailed, match="moved"):
            writer.load_checkpoint("mailer")
        with pytest.raises(errors.ReadFailed, match="moved"):
            writer.save_checkpoint("mailer", 3)
        assert other.load_checkpoint("mailer") == 5


def test_a_reader_goes_on_with_the_log_that_it_opened(opened: Any, directory: Path) -> None:
    """SAFE-07: a reader whose directory was replaced does not jump to another log."""
    writer = opened(segment_bytes_max=SMALL)
    writer.append("order/1", events(1))
    reader = opened(readonly=True)
    assert reader.head() == 1
    directory.rename(directory.with_name("moved"))
    with tallystick.open(f"files:{directory}", segment_bytes_max=SMALL) as other:
        for number in range(9):
            other.append("order/2", events(1, first=number))
            writer.append("order/1", events(1, first=number))
        assert {item.stream for item in reader.events()} == {"order/1"}
        assert reader.head() == 10


@pytest.mark.parametrize("how", ["removed", "moved away", "replaced"])
def test_a_second_writer_is_refused_though_the_lock_file_is_gone(opened: Any, directory: Path, how: str) -> None:
    """SAFE-04: "a stale lock" that somebody removes is still held: the directory itself is locked."""
    writer = opened(segment_bytes_max=SMALL)
    writer.append("order/1", events(1))
    lock = directory / "lock"
    if how == "moved away":
        lock.rename(directory / "quarantine" / "lock")
    else:
        lock.unlink()
    if how == "replaced":
        lock.write_text("pid 1\n")
    assert opened_elsewhere(directory) == "StoreLocked"
    for number in range(9):
        writer.append("order/1", events(1, first=number))
    writer.close()
    assert opened_elsewhere(directory) == ""
    whole(directory, 10)


NAMES: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "renamed": lambda path: path.rename(path.with_name("elsewhere")),
    "replaced by a copy": lambda path: (shutil.copy(path, f"{path}.copy"), os.replace(f"{path}.copy", path)),
}


@pytest.mark.parametrize("how", NAMES)
@pytest.mark.parametrize("name", ["current.log", "synced"])
@pytest.mark.parametrize("bytes_max", [SMALL, 1_000_000], ids=["sealing", "appending"])
def test_nothing_is_acknowledged_that_the_names_do_not_lead_to(
    opened: Any, directory: Path, how: str, name: str, bytes_max: int
) -> None:
    """SAFE-04: a writer whose files were exchanged under it stops by name; what it acknowledged before is there."""
    writer = opened(segment_bytes_max=bytes_max)
    for number in range(3):
        writer.append("order/1", events(1, first=number))
    NAMES[how](directory / name)
    for _ in range(2):
        with pytest.raises(errors.StoreFailed, match=name):
            writer.append("order/1", NewEvent("thing.happened", {"text": "x" * 900}))
    writer.close()
    if (how, name) == ("renamed", "current.log"):
        (directory / "elsewhere").rename(directory / name)
    if (how, name) == ("removed", "current.log"):
        with pytest.raises(errors.Damaged, match="no segment"):
            tallystick.open(f"files:{directory}")
        return
    with tallystick.open(f"files:{directory}") as store:
        assert [item.position for item in store.events()][:3] == [1, 2, 3]
        assert verify(store.log).ok
