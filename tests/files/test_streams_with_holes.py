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
    """order/early ends before the hole, order/late behind it; order/lost is in the segment that is gone."""
    with opened(segment_bytes_max=1500) as store:
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
    """SAFE-04: whether a stream goes on in a hole, and whether there is an event, cannot be known."""
    assert damaged.holes()
    with pytest.raises(errors.Damaged):
        QUESTIONS[question](damaged, stream)


def test_what_is_whole_is_answered(damaged: Any) -> None:
    """LH-16: what does not depend on the hole is read as before."""
    assert damaged.stream_head("order/late").seq == 9
    assert [item.seq for item in damaged.read_stream("order/early", until=2)] == [1, 2]
    assert [item.seq for item in damaged.read_stream("order/early", limit=3)] == [1, 2, 3]
    assert damaged.find(damaged.read_stream("order/early", until=1)[0].id).seq == 1
