"""A damaged or cut current.log is distinguished from one that a crash left, also when the synced mark lags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick import errors
from tallystick.engines.disk import Disk
from tallystick.engines.files import mark, segment
from tallystick.engines.files.scan import Scanner
from tallystick.testing.builders import events


def fill(opened: Any, directory: Path, large: Any) -> bytes:
    """A sealed segment with position 1, and a current.log with 2 to 6; returns the mark as the sealing synced it."""
    with opened(segment_bytes_max=3000) as store:
        store.append("order/1", large)
        store.append("order/1", large)
    header = segment.decode((directory / "current.log").read_bytes()[: segment.SIZE], path="current.log")
    with opened() as store:
        for number in range(3, 7):
            store.append("order/1", events(1, first=number))
        assert (header.first_position, store.head()) == (2, 6)
    return mark.encode(mark.SegmentMark(header.segment_id, segment.SIZE, header.first_position, 999)).ljust(512, b"\0")


@pytest.mark.parametrize("known", ["lagging", "whole", "lost"])
def test_a_current_log_with_a_damaged_header_is_a_hole_and_is_not_replaced(
    opened: Any, directory: Path, large: Any, flip: Any, known: str
) -> None:
    """LH-08, settled 15: whatever the mark says, the log opens read-only and not one byte is changed."""
    lagging = fill(opened, directory, large)
    if known == "lagging":
        (directory / "synced").write_bytes(lagging * 2)
    elif known == "lost":
        (directory / "synced").unlink()
    flip(directory / "current.log", 40)
    before = (directory / "current.log").read_bytes()
    store = opened()
    assert [hole.first for hole in store.holes()] == [2]
    with pytest.raises(errors.Damaged):
        store.append("order/1", events(1))
    with pytest.raises(errors.Damaged):
        list(store.events())
    assert [item.position for item in store.events(over_holes=True)] == [1]
    store.close()
    assert (directory / "current.log").read_bytes() == before
    assert list((directory / "quarantine").iterdir()) == []


def frames(path: Path) -> list[int]:
    """Where the frames of a segment begin."""
    file = Disk().open_read(str(path))
    header = segment.decode(file.read_at(0, segment.SIZE), path=str(path))
    return [
        frame.offset
        for frame, _ in Scanner(file, header.segment_id, offset=segment.SIZE, end=file.size(), position=None)
    ]


@pytest.mark.parametrize("missing", [1, 3])
def test_an_index_that_knew_more_than_the_file_holds_is_evidence_of_a_cut(
    opened: Any, directory: Path, large: Any, missing: int
) -> None:
    """LH-08, settled 7: without a mark, a current.log that was cut at a frame is damage and not the end of the log."""
    fill(opened, directory, large)
    (directory / "synced").unlink()
    path = directory / "current.log"
    with path.open("r+b") as file:
        file.truncate(frames(path)[-missing])
    size = path.stat().st_size
    store = opened()
    assert [(hole.first, hole.last) for hole in store.holes()] == [(7 - missing, 6)]
    with pytest.raises(errors.Damaged):
        store.append("order/1", events(1))
    assert len(list(store.events(over_holes=True))) == 6 - missing
    assert path.stat().st_size == size


@pytest.mark.parametrize(("known", "last"), [("mark", 3), ("nothing", 1)])
def test_a_log_without_a_readable_segment_says_how_much_is_lost(
    opened: Any, directory: Path, flip: Any, known: str, last: int
) -> None:
    """LH-08: positions 1 to the last one that the mark knows; at least the first, if nothing knows more."""
    with opened() as store:
        store.append("order/1", events(3))
    flip(directory / "current.log", 40)
    for path in (directory / "index").iterdir():
        path.unlink()
    if known == "nothing":
        (directory / "synced").unlink()
    for options in ({"readonly": True}, {}):
        with pytest.raises(errors.Damaged, match=r"no segment of .* can be read") as refused:
            opened(**options)
        assert (refused.value.first, refused.value.last) == (1, last)


def test_a_reader_that_follows_into_damage_names_it(opened: Any, directory: Path, flip: Any) -> None:
    """LH-08: what was synced since and cannot be read is a hole for a reader that was open before, not the end."""
    store = opened()
    store.append("order/1", events(2))
    reader = opened(readonly=True)
    assert reader.head() == 2
    begin = (directory / "current.log").stat().st_size
    store.append("order/1", events(3, first=3))
    flip(directory / "current.log", begin + 60)
    with pytest.raises(errors.Damaged) as refused:
        list(reader.events())
    assert (refused.value.first, refused.value.last) == (3, 5)
    assert [(hole.first, hole.last) for hole in reader.holes()] == [(3, 5)]
    assert reader.report().problems
    assert [event.position for event in reader.events(over_holes=True)] == [1, 2]
