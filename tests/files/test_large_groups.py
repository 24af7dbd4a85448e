"""How much is written at once when many requests come together."""

from __future__ import annotations

import errno
import functools
from typing import Any

import pytest

from tallystick import NewEvent, errors
from tallystick.engines.files import frame
from tallystick.store import group_commit
from tallystick.store.group_commit import by_bytes
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing.faults import Fault


def padded(size: int, stream: str = "order/1", **options: Any) -> Request:
    """A request with one event of about this size."""
    return Request([Part(stream, [NewEvent("thing.happened", {"text": "x" * size})], **options)])


def test_a_group_over_the_byte_limit_is_split(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-16: requests that are each valid are all written when they come at once, in order, each with its outcome."""
    monkeypatch.setattr(frame, "BODY_BYTES_MAX", 4000)
    monkeypatch.setattr(group_commit, "by_bytes", functools.partial(by_bytes, bytes_max=2000))
    store = opened()
    requests = [padded(1200, expected=number) for number in range(5)]
    *done, refused, last = store.submit([*requests, padded(1200, expected=99), padded(10)])
    assert [outcome[0].position for outcome in [*done, last]] == [1, 2, 3, 4, 5, 6]
    assert isinstance(refused, errors.Conflict)
    store.close()
    again = opened()
    assert len(list(again.events())) == 6
    assert verify(again.log).ok


@pytest.mark.parametrize("full", [1, 2, 3])
def test_each_part_of_a_split_group_has_its_own_outcome(
    opened: Any, monkeypatch: pytest.MonkeyPatch, hooked: Any, full: int
) -> None:
    """SAFE-05: when the disk is full for one part of a group, only its requests are refused; the others are durable."""
    monkeypatch.setattr(group_commit, "by_bytes", functools.partial(by_bytes, bytes_max=2000))
    store = opened(filesystem=hooked)
    hooked.inject(Fault(operation="write", path_part="current.log", nth=full, error=errno.ENOSPC))
    outcomes = store.submit([padded(1200, f"order/{number}") for number in range(3)])
    hooked.inject(None)
    refused = [number for number, outcome in enumerate(outcomes, start=1) if isinstance(outcome, errors.NoSpace)]
    assert refused == [full]
    stored = {info.stream for info in store.streams()}
    assert stored == {f"order/{number}" for number in range(3)} - {f"order/{full - 1}"}
    store.close()
    again = opened()
    assert {info.stream for info in again.streams()} == stored
    assert verify(again.log).ok
