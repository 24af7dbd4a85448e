"""Bit rot in index files: an index is rebuilt from its segment, and never gives a wrong answer before that."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent
from tallystick.store.verify import verify
from tallystick.testing.builders import event_id, events, named

PATIENCE_SECONDS = 0.3
SECTIONS = ("positions", "ids", "id_offsets", "entry_ends", "entries", "bloom")


def fill(store: Any, *, count: int = 20) -> None:
    """Commits that make frames to be scanned: named events 1 to `count` in one stream."""
    for number in range(1, count + 1):
        store.append("order/1", named(number))


def check(store: Any, *, last: int) -> None:
    """Every event of the stream once, found by its id, and the whole log verified."""
    assert [item.seq for item in store.read_stream("order/1")] == list(range(1, last + 1))
    assert [item.position for item in store.events()] == list(range(1, store.head() + 1))
    assert all(store.find(item.id) == item for item in store.events())
    assert store.holes() == []
    assert [problem for problem in verify(store.log).problems if problem.what != "index"] == []


def test_an_append_while_a_thread_rebuilds_the_current_index_stays_in_it(
    opened: Any, directory: Path, hooked: Any, rot: Any
) -> None:
    """LH-19, EVT-01: what is acknowledged while a damaged index is made again is not denied, nor written twice."""
    with opened() as store:
        fill(store)
    rot(directory / "index/current.idx", "ids")
    store = opened(filesystem=hooked)
    store.append("order/1", events(1))  # without an id of its own: nothing is looked up yet
    writing = threading.Thread(target=lambda: store.append("order/1", events(1)))

    def while_it_scans(operation: str, path: str) -> bool:
        if operation != "read" or not path.endswith("/current.log"):
            return True
        writing.start()
        writing.join(PATIENCE_SECONDS)
        return False

    hooked.before = while_it_scans
    assert store.find(event_id(1)) is not None
    writing.join()
    assert store.report().facts["indexes_rebuilt"] == 1
    (last,) = store.read(after=21).events
    assert store.append("order/1", NewEvent(last.type, last.data, id=last.id)).stored == 1
    assert store.append("order/1", events(1)).position == store.head() == 23
    check(store, last=23)
    store.close()
    check(opened(), last=23)


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("readonly", [True, False], ids=["reader", "writer"])
def test_frames_behind_a_damaged_current_index_do_not_stop_the_log_from_opening(
    opened: Any, directory: Path, rot: Any, section: str, readonly: bool
) -> None:
    """LH-16: recovery is automatic: whichever section is damaged, the index is made again when the log is opened."""
    with opened() as store:
        fill(store)
    with opened() as store:
        store.append("order/1", named(21))  # too little to write the index again
    rot(directory / "index/current.idx", section)
    check(opened(readonly=readonly), last=21)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_current_index_that_is_damaged_after_opening_tells_nothing_twice(
    opened: Any, directory: Path, rot: Any, forgetful: Any, section: str
) -> None:
    """LH-16, EVT-01: the file and what has grown since are asked again as a whole, so no event comes twice."""
    with opened() as store:
        fill(store)
    store = opened()
    for number in range(21, 24):
        store.append("order/1", named(number))
    rot(directory / "index/current.idx", section)
    forgetful()
    check(store, last=23)
    assert store.append("order/1", named(3)).stored == 1
    assert store.append("order/1", named(24)).seq == 24
    check(store, last=24)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_damaged_index_of_a_segment_that_this_process_sealed_is_made_again(
    opened: Any, directory: Path, rot: Any, forgetful: Any, section: str
) -> None:
    """LH-16: reads and appends continue when a section is read again and found damaged, in any segment."""
    store = opened(segment_bytes_max=1024)
    fill(store)
    store.append("order/9", events(1))
    sealed = sorted((directory / "index").glob("2*.idx"))
    assert len(sealed) > 2
    for path in sealed:
        rot(path, section)
    forgetful()
    check(store, last=20)
    assert store.append("order/1", named(21)).seq == 21
    assert store.append("order/9", events(1)).seq == 2
    assert store.append("order/1", named(3)).stored == 1
    check(store, last=21)


def test_an_index_from_before_a_segment_was_full_does_not_answer_for_it(
    opened: Any, directory: Path, tmp_path: Path
) -> None:
    """SAFE-01: segments that exchanged their names: a reader does not see streams end where an old index ends."""
    with opened() as store:
        fill(store)
    with opened(segment_bytes_max=6000) as store:
        while not list(directory.glob("2*.log")):
            store.append("order/2", events(1))
        ends = {name: store.stream_head(name) for name in ("order/1", "order/2")}
        links = [item.link for item in store.read_stream("order/2")]
        copy = Path(shutil.copytree(directory, tmp_path / "copy"))  # as a writer leaves it that is killed
    (sealed,) = copy.glob("2*.log")
    (copy / "current.log").rename(copy / "held")
    sealed.rename(copy / "current.log")
    (copy / "held").rename(sealed)
    with tallystick.open(f"files:{copy}", readonly=True) as store:
        assert {name: store.stream_head(name) for name in ends} == ends
        assert [item.link for item in store.read_stream("order/2")] == links
