"""What is asked of a stream while a part of the log is lost: nothing is called its end that may not be it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick import errors
from tallystick.testing.builders import events

pytestmark = pytest.mark.security

QUESTIONS = {
    "stream_head": lambda store, stream: store.stream_head(stream),
    "read_stream": lambda store, stream: store.read_stream(stream),
    "behind": lambda store, stream: store.read_stream(stream, after=2),
    "find": lambda store, stream: store.find(b"n" * 16),
}


@pytest.fixture(params=[True, False], ids=["reader", "writer"])
def damaged(opened: Any, directory: Path, request: pytest.FixtureRequest) -> Any:
    """order/early ends before the hole, order/late after it; order/lost is in the segment that is gone."""
    with opened(segment_bytes_max=1150) as store:
        for stream, count in (("order/early", 3), ("order/late", 3), ("order/lost", 9), ("order/late", 6)):
            for number in range(count):
                store.append(stream, events(1, first=number))
    lost = next(path for path in sorted(directory.glob("2*.log")) if b"order/lost" in path.read_bytes())
    assert b"order/early" not in lost.read_bytes()
    lost.unlink()
    (directory / "index" / f"{lost.stem}.idx").unlink()
    return opened(readonly=request.param)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("stream", ["order/early", "order/never"])
def test_no_end_is_made_up(damaged: Any, question: str, stream: str) -> None:
    """SAFE-04: it cannot be known whether a stream continues in a hole, or whether an event is in it."""
    assert damaged.holes()
    with pytest.raises(errors.Damaged):
        QUESTIONS[question](damaged, stream)


def test_what_is_whole_is_answered(damaged: Any) -> None:
    """LH-16: what does not depend on the hole is read as before."""
    assert damaged.stream_head("order/late").seq == 9
    assert [item.seq for item in damaged.read_stream("order/early", until=2)] == [1, 2]
    assert [item.seq for item in damaged.read_stream("order/early", limit=3)] == [1, 2, 3]
    assert damaged.find(damaged.read_stream("order/early", until=1)[0].id).seq == 1


def test_a_missing_segment_is_a_hole_of_exactly_its_positions(damaged: Any) -> None:
    """LH-16: every position is either read or named as missing, and none is both."""
    (hole,) = damaged.holes()
    read = [event.position for event in damaged.read(over_holes=True, limit=100).events]
    assert sorted([*read, *range(hole.first, hole.last + 1)]) == list(range(1, damaged.head() + 1))
    assert hole.last > hole.first


@pytest.fixture
def flipped(opened: Any, directory: Path) -> Any:
    """A byte of order/lost was changed in a sealed segment; gives the name of that segment."""
    with opened(segment_bytes_max=1150) as store:
        for stream, count in (("order/early", 3), ("order/lost", 9), ("order/late", 6)):
            for number in range(count):
                store.append(stream, events(1, first=number))
        last = store.read_stream("order/lost", after=8)[0]
    path = next(path for path in sorted(directory.glob("2*.log")) if last.id in path.read_bytes())
    data = path.read_bytes()
    at = data.index(last.id) + 40
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    return path


@pytest.mark.parametrize("readonly", [True, False], ids=["reader", "writer"])
def test_an_index_tells_what_a_hole_held(opened: Any, flipped: Path, readonly: bool) -> None:
    """LH-16: where the index of a damaged segment is whole, only what lies in the damage is refused."""
    with opened(readonly=readonly) as store:
        with pytest.raises(errors.Damaged):
            store.read_stream("order/lost")
        assert store.holes()
        assert store.stream_head("order/early").seq == 3
        assert store.stream_head("order/lost").seq == 9
        assert store.stream_head("order/never") is None
        assert store.find(b"n" * 16) is None
        assert [event.seq for event in store.read_stream("order/early")] == [1, 2, 3]
        assert [event.seq for event in store.read_stream("order/lost", limit=8)] == list(range(1, 9))


@pytest.mark.parametrize("readonly", [True, False], ids=["reader", "writer"])
@pytest.mark.parametrize("how", ["removed", "emptied", "changed"])
def test_an_index_made_of_a_damaged_segment_names_the_damage(
    opened: Any, directory: Path, flipped: Path, how: str, readonly: bool
) -> None:
    """SAFE-04: without its index it is not known what a damaged segment held, and nothing is appended to a guess."""
    index = directory / "index" / f"{flipped.stem}.idx"
    if how == "removed":
        index.unlink()
    elif how == "emptied":
        index.write_bytes(b"")
    else:
        data = index.read_bytes()
        sections = 8 + 2 + 16 + 16 + 8 + 8 + 12 * 40 + 32
        index.write_bytes(data[:sections] + bytes(byte ^ 255 for byte in data[sections:]))
    for _ in range(2):  # what the first opening made is not taken for knowledge by the second
        with opened(readonly=readonly) as store:
            for stream in ("order/lost", "order/never"):
                with pytest.raises(errors.Damaged):
                    store.stream_head(stream)
            assert store.stream_head("order/late").seq == 6
            assert [event.seq for event in store.read_stream("order/early", until=3)] == [1, 2, 3]
            for until in (4, None):  # more of it may lie in the hole
                with pytest.raises(errors.Damaged):
                    store.read_stream("order/early", until=until)
            if not readonly:
                with pytest.raises(errors.Damaged):
                    store.append("order/lost", events(1, first=20))
