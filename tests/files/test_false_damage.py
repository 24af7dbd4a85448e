"""Readers next to an active writer: what looks like damage for a moment is not reported."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick.engines.files.reader import SegmentReader
from tallystick.engines.files.segments import Segment
from tallystick.store.verify import verify
from tallystick.testing.builders import events

BOUND_SECONDS = 30
OPERATIONS_MAX = 200


def sealed_at(directory: Path, disk: Any, nth: int) -> bool:
    """Open a reader and seal a segment before its n-th operation; whether it had so many."""
    left = [nth]
    with tallystick.open(f"files:{directory}", segment_bytes_max=256) as writer:  # every append seals
        for _ in range(3):
            writer.append("order/1", events(2))

        def seal_in_time(operation: str, path: str) -> bool:
            left[0] -= 1
            if not left[0]:
                writer.append("order/1", events(2))
            return left[0] > 0

        disk.before = seal_in_time
        with tallystick.open(f"files:{directory}", readonly=True, filesystem=disk) as reader:
            disk.before = None
            assert reader.holes() == [], f"sealed before operation {nth}"
            assert [item.position for item in reader.events()] == list(range(1, writer.head() + 1))
            assert reader.holes() == []
    return left[0] <= 0


def test_a_reader_that_opens_while_a_segment_is_sealed_reports_no_hole(hooked: Any, directory: Path) -> None:
    """LH-06, EVT-06: at whichever operation of the opening the writer seals a segment, the reader sees a whole log."""
    nth = 1
    while sealed_at(directory / str(nth), hooked, nth):
        nth += 1
        assert nth < OPERATIONS_MAX
    assert nth > 10


def test_a_reader_that_saw_a_seal_goes_on_with_the_next_segments(opened: Any, hooked: Any, directory: Path) -> None:
    """LH-06: a current.log that is renamed after its directory was listed has no effect on later reads."""
    writer = opened(segment_bytes_max=256)
    writer.append("order/1", events(1))
    writer.append("order/1", events(1))

    def at_the_first_header(operation: str, path: str) -> bool:
        if operation != "open" or not path.endswith(".log"):
            return True
        writer.append("order/1", events(1))
        return False

    hooked.before = at_the_first_header
    reader = opened(readonly=True, filesystem=hooked)
    for _ in range(3):
        writer.append("order/1", events(1))
        assert [item.position for item in reader.events()] == list(range(1, writer.head() + 1))
    assert (reader.holes(), verify(reader.log).problems) == ([], [])


@pytest.mark.parametrize("by", ["stream", "find"])
def test_a_thread_sees_no_damage_while_another_one_takes_in_what_is_new(
    opened: Any, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """EVT-06: on one reading handle, an index that has just grown points at nothing after the end of the segment."""
    writer, reader = opened(), opened(readonly=True)
    grown, asked = threading.Event(), threading.Event()
    first_id = writer.append("order/1", events(1)) and next(iter(writer.events())).id
    assert reader.head() == 1
    growing = threading.Thread(target=reader.head)
    index_all, question = Segment.index_all, getattr(SegmentReader, by)

    def grow_and_wait(self: Any, *args: Any, **options: Any) -> Any:
        found = index_all(self, *args, **options)
        grown.set()
        asked.wait(BOUND_SECONDS)
        return found

    def ask_when_grown(self: Any, *args: Any, **options: Any) -> Any:
        monkeypatch.setattr(SegmentReader, by, question)
        writer.append("order/1", events(1))
        monkeypatch.setattr(Segment, "index_all", grow_and_wait)
        growing.start()
        assert grown.wait(BOUND_SECONDS)
        try:
            if by == "find":
                args = (args[0], next(item.id for item in writer.events(after=1)))
            return question(self, *args, **options)
        finally:
            asked.set()

    monkeypatch.setattr(SegmentReader, by, ask_when_grown)
    found = reader.read_stream("order/1") if by == "stream" else [reader.find(first_id)]
    growing.join()
    assert found[-1].position == 2
    assert reader.holes() == []
    assert [item.position for item in reader.events()] == [1, 2]
