"""Sealing a segment while threads read, and next to files that are not ours."""

from __future__ import annotations

import shutil
import threading
from typing import Any

import pytest

import tallystick
from tallystick import errors
from tallystick.store.verify import verify
from tallystick.testing.builders import event_id, named

PATIENCE_SECONDS = 2


def read_in_the_middle_of_sealing(store: Any, disk: Any, large: Any) -> None:
    """Seal twice; during the second time, when current.log has gone, a thread reads a segment that was not read yet."""
    reading = threading.Thread(target=lambda: store.read(after=store.head() - 1))

    def at_the_rename(operation: str, path: str) -> bool:
        if not path.endswith("_002.log"):
            return True
        reading.start()
        reading.join(PATIENCE_SECONDS)
        return False

    disk.after = at_the_rename
    for _ in range(3):
        store.append("order/1", large)
    reading.join()


def test_a_thread_that_reads_while_a_segment_is_sealed_does_not_detach_the_writer(
    opened: Any, hooked: Any, large: Any
) -> None:
    """LH-06: after it head, find, retry and stream still know everything that the writer has acknowledged since."""
    store = opened(filesystem=hooked, segment_bytes_max=3000)
    read_in_the_middle_of_sealing(store, hooked, large)
    assert store.append("order/1", named(1)).position == store.head() == 4
    found = store.find(event_id(1))
    assert found is not None
    assert found.position == 4
    assert store.append("order/1", named(1)).stored == 1
    with pytest.raises(errors.DuplicateId):
        store.append("order/2", named(1))
    assert [item.seq for item in store.read_stream("order/1")] == [1, 2, 3, 4]
    assert store.log._view.opened.lock is not None


def test_a_sealed_name_is_never_taken_twice(opened: Any, hooked: Any, large: Any) -> None:
    """LH-06, LH-19: whatever threads read meanwhile, no sealed segment is put in the place of another one."""
    store = opened(filesystem=hooked, segment_bytes_max=3000)
    read_in_the_middle_of_sealing(store, hooked, large)
    sealed: list[str] = []
    hooked.after = lambda operation, path: sealed.append(path) if path.endswith(".log") else None
    for _ in range(4):
        store.append("order/1", large)
    assert len({path for path in sealed if not path.endswith("/current.log")}) == 4
    store.close()
    again = opened()
    assert (again.holes(), again.head()) == ([], 7)
    assert [item.position for item in again.events()] == list(range(1, 8))
    assert verify(again.log).ok


def test_a_foreign_file_with_a_dated_name_is_not_overwritten(opened: Any, directory: Any, large: Any) -> None:
    """LH-06: a segment of another store in the directory is reported and left as it is, and its name is not taken."""
    with tallystick.open(f"files:{directory}.other", segment_bytes_max=3000) as other:
        other.append("order/1", large)
        other.append("order/1", large)
    (theirs,) = directory.with_name("log.other").glob("2*_001.log")
    opened(segment_bytes_max=3000).close()
    shutil.copy(theirs, directory)
    store = opened(segment_bytes_max=3000)
    assert [name.split()[0] for name in store.report().facts["not_ours"]] == [theirs.name]
    store.append("order/1", large)
    store.append("order/1", large)
    assert (directory / theirs.name).read_bytes() == theirs.read_bytes()
    store.close()
    assert [item.position for item in opened().events()] == [1, 2]
